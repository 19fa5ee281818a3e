# SPDX-License-Identifier: MIT
# Calls per second by the number of threads.  Needs: data (CSV of medians: workload,subject,threads,ns),
# where (the machine), a terminal and an output.
set datafile separator ","
set datafile missing NaN
set multiplot layout 1,3 margins 0.055,0.84,0.13,0.83 spacing 0.045
set logscale x 2
set xlabel "threads"
set grid lc rgb "#d8d8d8"
# Four or five steps of a scale that ends at `most`.
step(most) = most > 100 ? 50 : most > 50 ? 20 : most > 20 ? 10 : 5
set yrange [0:*]
set offsets graph 0, 0, graph 0.06, 0
subjects = "bloom cuckoo libbloom-mutex libbloom-rwlock libcuckoo"
colours = "#0060ad #d95f02 #7a7a7a #b0a020 #7b3294"
titles = "hit: look-ups of keys that are in|insert: adds, from empty to full|mix: 90 % look-ups, 10 % adds"
words_ = "hit insert mix"
part(i) = i == 1 ? titles[1:strstrt(titles, "|") - 1] : i == 3 ? titles[strstrt(titles, "|mix") + 1:*] \
  : titles[strstrt(titles, "|") + 1:strstrt(titles, "|mix") - 1]
set label 1 "Throughput by threads (" . where . ")" at screen 0.4475,0.955 center font ",15"
set key at screen 0.997,0.84 right top vertical Left reverse samplen 1.5
set ylabel "million calls per second"
do for [w=1:3] {
  set title part(w)
  stats data using (strcol(1) eq word(words_, w) ? 1e3 / $4 : NaN) name "speed" nooutput
  set ytics 0, step(speed_max)
  plot for [i=1:words(subjects)] data \
    using (strcol(1) eq word(words_, w) && strcol(2) eq word(subjects, i) ? $3 : NaN):(1e3 / $4) \
    with linespoints lw 2 pt 7 ps 0.5 lc rgb word(colours, i) title word(subjects, i)
  unset key
  unset ylabel
  unset label 1
}
unset multiplot
