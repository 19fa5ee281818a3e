// SPDX-License-Identifier: MIT
// The package ioredis: ioredis.js PORT
"use strict";
const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function dumpAndLoad(redis, kind, from, to) {
  for (let cursor = 0; ;) {
    const [next, chunk] = await redis.callBuffer(`${kind}.SCANDUMP`, from, cursor);
    if (Number(next) === 0) return;
    assert.equal(await redis.call(`${kind}.LOADCHUNK`, to, next, chunk), "OK");
    cursor = next;
  }
}

async function main() {
  const redis = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]) });
  await redis.flushall();
  assert.equal(await redis.call("BF.RESERVE", "f", 0.001, 1000), "OK");
  assert.equal(await redis.call("BF.ADD", "f", "a"), 1);
  assert.deepEqual(await redis.call("BF.MADD", "f", "a", "b"), [0, 1]);
  assert.deepEqual(await redis.call("BF.INSERT", "f", "ITEMS", "b", "c"), [0, 1]);
  assert.equal(await redis.call("BF.EXISTS", "f", "absent"), 0);
  assert.deepEqual(await redis.call("BF.MEXISTS", "f", "a", "absent"), [1, 0]);
  assert.equal(await redis.call("BF.CARD", "f"), 3);
  assert.deepEqual(await redis.call("BF.INFO", "f", "CAPACITY"), [1000]);
  assert.equal((await redis.call("BF.INFO", "f")).length, 10);
  assert.equal(await redis.call("CF.RESERVE", "c", 1000), "OK");
  assert.equal(await redis.call("CF.ADD", "c", "a"), 1);
  assert.equal(await redis.call("CF.ADDNX", "c", "a"), 0);
  assert.deepEqual(await redis.call("CF.INSERT", "c", "ITEMS", "a", "b"), [1, 1]);
  assert.deepEqual(await redis.call("CF.INSERTNX", "c", "ITEMS", "a", "d"), [0, 1]);
  assert.equal(await redis.call("CF.COUNT", "c", "a"), 2);
  assert.equal(await redis.call("CF.DEL", "c", "a"), 1);
  assert.deepEqual(await redis.call("CF.MEXISTS", "c", "a", "absent"), [1, 0]);
  assert.equal((await redis.call("CF.INFO", "c")).length, 16);
  await dumpAndLoad(redis, "BF", "f", "f again");
  await dumpAndLoad(redis, "CF", "c", "c again");
  assert.equal(await redis.call("BF.CARD", "f again"), 3);
  assert.equal(await redis.call("CF.COUNT", "c again", "a"), 1);
  await assert.rejects(redis.call("BF.RESERVE", "f", 0.01, 10), /item exists/);
  const replies = await redis.multi().call("BF.ADD", "m", "a").call("BF.EXISTS", "m", "a").exec();
  assert.deepEqual(replies, [[null, 1], [null, 1]]);
  const piped = await redis.pipeline().call("BF.ADD", "m", "b").call("CF.ADD", "m", "x").exec();
  assert.equal(piped[0][1], 1);
  assert.match(piped[1][0].message, /^WRONGTYPE/);
  redis.disconnect();
}

main().catch((error) => { console.error(error); process.exit(1); });
