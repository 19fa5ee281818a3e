# SPDX-License-Identifier: MIT
# The picture of README.md: the longest add while structures grow, and look-ups a second by threads.  Needs:
# pauses (CSV: subject,ns), lookups (CSV of medians: workload,subject,threads,ns), counts (the numbers of
# threads), keys, where (the machine), a terminal and an output.  Readable at 400 pixels, too.
set datafile separator ","
unset key
unset xtics
unset ytics
set border 2 lw 1.5 lc rgb "#505050"
array subjects[6] = ["bloom", "cuckoo", "libcuckoo", "libbloom-rwlock", "libbloom-mutex", "set-mutex"]
array names[6] = ["{/:Bold tamis, Bloom filter}", "{/:Bold tamis, cuckoo filter}", "libcuckoo (exact)", "libbloom + rwlock", \
  "libbloom + mutex", "hash set + mutex"]
ours = 2
place(subject) = sum [i=1:6] (subject eq subjects[i] ? i : 0)
name(subject) = names[place(subject)]
colour(subject) = place(subject) <= ours ? 0xd95f02 : 0x7a7a7a
pale(subject) = place(subject) <= ours ? 0xf4b183 : 0xbdbdbd
short(x) = x < 0.995 ? sprintf("%.2f", x) : x < 9.95 ? sprintf("%.1f", x) : sprintf("%.0f", x)
n = words(counts)
stats pauses skip 1 using 2 name "pause" nooutput
stats lookups skip 1 using (1e3 / $4) name "lookup" nooutput
set multiplot
set lmargin at screen 0.385
set rmargin at screen 0.84

set tmargin at screen 0.88
set bmargin at screen 0.665
set label 1 "{/:Bold The longest pause of one add}" at screen 0.02,0.965 left font ",21"
set label 2 "while growing to " . keys . " keys: shorter is better" at screen 0.02,0.915 left
set label 3 where at screen 0.5,0.022 center font ",13" tc rgb "#505050"
set xrange [0:pause_max]
set yrange [pause_records + 0.5:0.5]
plot pauses skip 1 using (0):($0 + 1):(0):2:($0 + 0.62):($0 + 1.38):(colour(strcol(1))) \
  with boxxyerror fs solid noborder lc rgb variable, \
  pauses skip 1 using (0):($0 + 1):(name(strcol(1))) with labels right offset -1,0, \
  pauses skip 1 using 2:($0 + 1):(short($2 / 1e6) . " ms") with labels left offset 0.6,0

unset label 2
unset label 3
set tmargin at screen 0.53
set bmargin at screen 0.06
set label 1 "{/:Bold Look-ups a second}" at screen 0.02,0.615 left font ",21"
set label 2 "in millions, among " . keys . " keys: longer is better" at screen 0.02,0.565 left
set xrange [0:lookup_max]
set yrange [6.5:0.5]
rank(threads) = sum [t=1:n] (threads == int(word(counts, t)) ? t : 0)
high = 0.84 / n
top(subject, threads) = place(subject) - 0.42 + high * (rank(threads) - 1)
middle(subject, threads) = top(subject, threads) + 0.46 * high
says(threads) = sprintf(threads == 1 ? "%d thread" : "%d threads", threads)
plot lookups skip 1 using (0):(place(strcol(2))):(0):(1e3 / $4):(top(strcol(2), $3)): \
  (top(strcol(2), $3) + 0.92 * high):(rank($3) < n ? pale(strcol(2)) : colour(strcol(2))) \
  with boxxyerror fs solid noborder lc rgb variable, \
  lookups skip 1 using (0):(rank($3) == 1 ? place(strcol(2)) : NaN):(name(strcol(2))) with labels right offset -1,0, \
  lookups skip 1 using (0):(strcol(2) eq subjects[1] ? middle(strcol(2), $3) : NaN):(says($3)) \
  with labels left offset 0.6,0 font ",13", \
  lookups skip 1 using (1e3 / $4):(middle(strcol(2), $3)):(short(1e3 / $4)) with labels left offset 0.6,0
unset multiplot
