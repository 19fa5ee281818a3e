# SPDX-License-Identifier: MIT
# Calls a second by the number of threads.  Wants: data (CSV of medians: workload,subject,threads,ns), out.
set terminal svg size 1200,420 dynamic background "white" font "sans,12"
set output out
set datafile separator ","
set datafile missing NaN
set multiplot layout 1,3 margins 0.06,0.83,0.14,0.90 spacing 0.05
set logscale x 2
set yrange [0:*]
set xlabel "threads"
set ylabel "million calls a second"
set grid
set key at screen 0.995,0.86 right top vertical
subjects = "bloom cuckoo libbloom-mutex libbloom-rwlock libcuckoo"
do for [w in "hit insert mix"] {
  set title w
  plot for [i=1:words(subjects)] data \
    using (strcol(1) eq w && strcol(2) eq word(subjects, i) ? $3 : NaN):(1e3 / $4) \
    with linespoints lw 2 pt 7 ps 0.5 lc i title word(subjects, i)
  unset key
  unset ylabel
}
