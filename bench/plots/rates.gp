# SPDX-License-Identifier: MIT
# Bits per key and the false-positive rate while filters grow.  Needs: data (docs/plots/rates.csv),
# where (the machine), a terminal and an output.
set datafile separator ","
set datafile missing NaN
set multiplot layout 1,2 margins 0.055,0.985,0.13,0.83 spacing 0.09
set label 1 "A cuckoo filter created for 1000 keys, while it grows" at screen 0.5,0.955 center font ",15"
set key inside top right vertical samplen 2
set logscale x
set xrange [1000:*]
set format x "10^{%L}"
set xlabel "keys that are in"
set grid lc rgb "#d8d8d8"
rates = "0.01 0.001"
colours = "#0060ad #d95f02"
set yrange [0:70]
set ylabel "bits per key"
set title "memory"
plot for [i=1:words(rates)] data \
  using (strcol(1) eq "cuckoo" && $2 == real(word(rates, i)) ? $3 : NaN):4 \
  with linespoints lw 2 pt 7 ps 0.3 lc rgb word(colours, i) title "requested rate " . word(rates, i), \
  NaN with lines lw 2 dt 2 lc rgb "#404040" title "requested rate"
unset key
unset label 1
set yrange [1e-5:3e-2]
set logscale y
set format y "10^{%L}"
set ylabel "false positives per look-up"
set title "false-positive rate"
plot for [i=1:words(rates)] data \
  using (strcol(1) eq "cuckoo" && $2 == real(word(rates, i)) && $5 > 0 ? $3 : NaN):5 \
  with linespoints lw 2 pt 7 ps 0.3 lc rgb word(colours, i) notitle, \
  for [i=1:words(rates)] real(word(rates, i)) with lines lw 2 dt 2 lc rgb word(colours, i) notitle
unset multiplot
