# SPDX-License-Identifier: MIT
# The longest adds while filters grow.  Needs: data (docs/plots/times.csv), where (the machine), a terminal and an output.
set datafile separator ","
set datafile missing NaN
set logscale y
set format x "%.1s %c"
set format y "10^{%L}"
set xlabel "keys"
set ylabel "microseconds per call"
set title "Adds to structures created for 1000 keys: the longest in each fiftieth of the run, and the mean\n{/*0.8 " . where . "; one thread}"
set grid lc rgb "#d8d8d8"
set key outside bottom center horizontal maxrows 1 samplen 2 width 1
subjects = "cuckoo libcuckoo"
colours = "#d95f02 #7b3294"
plot for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) && $2 == 0 ? $3 : NaN):($4 / 1e3) \
  with points pt 7 ps 0.6 lc rgb word(colours, i) title word(subjects, i) . ", longest", \
  for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) && $2 == 0 ? $3 : NaN):($5 / 1e3) \
  with lines lw 1.5 lc rgb word(colours, i) title word(subjects, i) . ", mean"
