# SPDX-License-Identifier: MIT
# Runs everything that the bench measures, with few keys: it must end well, find every answer right, and
# write files that others can read.  How long anything took is not looked at.
#   cmake -D BENCH=PROGRAM -D WORK=FOLDER -P test_bench.cmake
set(csv ${WORK}/bench_test.csv)
set(json ${WORK}/bench_test.json)
set(times ${WORK}/bench_test_times.csv)
set(rates ${WORK}/bench_test_rates.csv)

function(bench status)
  execute_process(COMMAND ${BENCH} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL status)
    message(FATAL_ERROR "bench ${ARGN}: ${result}, expected ${status}\n${output}")
  endif()
endfunction()

# Each line has as many fields as the first.
function(check_csv file fields least)
  file(STRINGS ${file} lines)
  list(LENGTH lines count)
  if(count LESS least)
    message(FATAL_ERROR "${file}: only ${count} lines")
  endif()
  foreach(line IN LISTS lines)
    string(REPLACE "," ";" line "${line}")
    list(LENGTH line count)
    if(NOT count EQUAL fields)
      message(FATAL_ERROR "${file}: ${count} fields: ${line}")
    endif()
  endforeach()
endfunction()

bench(0 table --tiny --csv ${csv} --json ${json})
check_csv(${csv} 8 100)
file(READ ${json} text)
string(JSON results LENGTH "${text}" results)
string(JSON ratios LENGTH "${text}" ratios)
if(results LESS 100 OR ratios LESS 50)
  message(FATAL_ERROR "${json}: ${results} results, ${ratios} ratios")
endif()
foreach(i RANGE 1 ${results} 10)
  math(EXPR i "${i} - 1")
  string(JSON median GET "${text}" results ${i} ns_per_call 1)
  if(NOT median GREATER 0)
    message(FATAL_ERROR "${json}: no time for result ${i}")
  endif()
endforeach()

bench(0 run hit mix unique-zipf --subjects bloom,bloom-fixed,cuckoo,set-mutex,read --threads 1,2
        --keys 2000,3e3 --fpp 0.01,0.001 --rounds 1 --seconds 0.001 --csv ${csv})
check_csv(${csv} 8 50)
bench(0 growth --subjects cuckoo,libcuckoo --keys 20000 --times ${times} --rates ${rates})
check_csv(${times} 5 2000)
check_csv(${rates} 5 10)
bench(0 list)
bench(2 run no-such-workload)
bench(2 run hit --subjects no-such-subject)
bench(2 run hit --threads 0)
