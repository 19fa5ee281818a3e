# SPDX-License-Identifier: MIT
# Bits per key and the rate of false positives while filters grow.  Wants: data (bench growth --rates), out.
set terminal svg size 1200,420 dynamic background "white" font "sans,12"
set output out
set datafile separator ","
set datafile missing NaN
set multiplot layout 1,2 margins 0.06,0.99,0.14,0.84 spacing 0.08
set logscale x
set xrange [1000:*]
set format x "10^{%L}"
set xlabel "keys"
set grid
set key at screen 0.5,0.98 center top
rates = "0.01 0.001"
set yrange [0:60]
set ylabel "bits per key"
plot for [i=1:words(rates)] data \
  using (strcol(1) eq "cuckoo" && $2 == real(word(rates, i)) ? $3 : NaN):4 \
  with linespoints lw 2 pt 7 ps 0.3 lc i title "cuckoo, made for 1000, asked " . word(rates, i)
unset key
set autoscale y
set logscale y
set format y "10^{%L}"
set ylabel "false-positive rate"
plot for [i=1:words(rates)] data \
  using (strcol(1) eq "cuckoo" && $2 == real(word(rates, i)) ? $3 : NaN):5 \
  with linespoints lw 2 pt 7 ps 0.3 lc i title "", \
  for [i=1:words(rates)] real(word(rates, i)) with lines dt 2 lc i title ""
