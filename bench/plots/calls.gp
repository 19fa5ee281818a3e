# SPDX-License-Identifier: MIT
# The distribution of the times of single adds while filters grow.  Needs: data (docs/plots/calls.csv),
# quantiles, where (the machine), a terminal and an output.
set datafile separator ","
set datafile missing NaN
set multiplot layout 1,2 margins 0.06,0.985,0.13,0.77 spacing 0.09
set label 1 "Single adds to structures created for 1000 keys (" . where . "; one thread)" at screen 0.5,0.955 center font ",15"
set key at screen 0.5,0.89 center center horizontal maxrows 1 samplen 2 width 2
set grid lc rgb "#d8d8d8"
subjects = "cuckoo libcuckoo"
colours = "#d95f02 #7b3294"
set logscale xy
set format x "10^{%L}"
set format y "10^{%L}"
set title "histogram"
set xlabel "microseconds (eight steps for each power of two)"
set ylabel "calls"
set yrange [0.7:*]
plot for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) ? $2 / 1e3 : NaN):3 \
  with points pt 7 ps 0.45 lc rgb word(colours, i) title word(subjects, i)
unset key
unset label 1
# The fraction of the calls that took longer; each step to the right divides it by ten.
set title "quantiles, from the median to the longest"
set xlabel "calls that took no longer"
set ylabel "microseconds"
set format y "10^{%L}"
set autoscale y
longest = 1e-7
set xrange [2:3e-8] reverse
set xtics ("50 %%" 0.5, "90 %%" 0.1, "99 %%" 0.01, "99.9 %%" 1e-3, "99.99 %%" 1e-4, "99.999 %%" 1e-5, "99.9999 %%" 1e-6, "all" longest) font ",11"
two(x) = x < 99.5 ? sprintf("%.2g", x) : sprintf("%.0f", x)
short(ns) = ns < 1e6 ? two(ns / 1e3) . " µs" : two(ns / 1e6) . " ms"
set offsets 0, 0, graph 0.06, graph 0.06
plot for [i=1:words(subjects)] data \
  using (strcol(1) eq word(subjects, i) && $4 >= 0.5 ? ($4 < 1 - longest ? 1 - $4 : longest) : NaN):($2 / 1e3) \
  with lines lw 2 lc rgb word(colours, i) notitle, \
  for [i=1:words(subjects)] quantiles \
  using (strcol(1) eq word(subjects, i) ? ($2 < 1 ? 1 - $2 : longest) : NaN):($3 / 1e3) \
  with points pt 7 ps 0.6 lc rgb word(colours, i) notitle, \
  for [i=1:words(subjects)] quantiles \
  using (strcol(1) eq word(subjects, i) ? ($2 < 1 ? 1 - $2 : longest) : NaN):($3 / 1e3):(short($3)) \
  with labels center offset 0,(i == 1 ? -0.9 : 0.9) font ",10" tc rgb word(colours, i) notitle
unset multiplot
