-- SPDX-License-Identifier: MIT
-- For wrk: asks for random ids from FIRST to LAST.
--   wrk -s load.lua http://HOST:PORT -- FIRST LAST
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(args)
  first, last = tonumber(args[1]), tonumber(args[2])
  math.randomseed(os.time() * 1000 + number)
end

function request()
  return wrk.format("GET", string.format("/items/%.0f", math.random(first, last)))
end
