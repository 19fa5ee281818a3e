# SPDX-License-Identifier: MIT
# The longest add in each thousandth of a run in which filters grow.  Wants: data (bench growth --times), out.
set terminal svg size 1200,420 dynamic background "white" font "sans,12"
set output out
set datafile separator ","
set datafile missing NaN
set logscale y
set format x "%.0s %c"
set xlabel "keys"
set ylabel "longest of the calls, microseconds"
set grid
set key outside top horizontal
subjects = "cuckoo libcuckoo"
plot for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) && $2 == 0 ? $3 : NaN):($4 / 1e3) \
  with points pt 7 ps 0.4 lc i title word(subjects, i), \
  for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) && $2 == 0 ? $3 : NaN):($5 / 1e3) \
  with lines lw 2 lc i title word(subjects, i) . ", mean"
