// SPDX-License-Identifier: MIT
// The package redis: node_redis.js PORT RESP
"use strict";
const assert = require("node:assert/strict");
const { createClient } = require("redis");

async function bloom(client) {
  assert.equal(await client.bf.reserve("f", 0.001, 1000), "OK");
  assert.equal(await client.bf.reserve("g", 0.001, 1000, { EXPANSION: 4 }), "OK");
  assert.equal(await client.bf.reserve("n", 0.001, 3, { NONSCALING: true }), "OK");
  assert.equal(await client.bf.add("f", "a"), true);
  assert.equal(await client.bf.add("f", "a"), false);
  assert.deepEqual(await client.bf.mAdd("f", ["a", "b", "c"]), [false, true, true]);
  assert.deepEqual(await client.bf.insert("f", ["c", "d"]), [false, true]);
  assert.deepEqual(
    await client.bf.insert("h", ["a"], { CAPACITY: 500, ERROR: 0.01, EXPANSION: 2 }), [true]);
  assert.equal(await client.bf.exists("f", "a"), true);
  assert.deepEqual(await client.bf.mExists("f", ["a", "absent"]), [true, false]);
  assert.equal(await client.bf.card("f"), 4);
  const info = await client.bf.info("f");
  assert.equal(info["Capacity"], 1000);
  assert.equal(info["Number of items inserted"], 4);
  assert.equal(info["Expansion rate"], 2);
  assert.ok(info["Size"] > 1000);
  await assert.rejects(client.bf.reserve("f", 0.01, 100), /item exists/);
  await assert.rejects(client.bf.insert("missing", ["a"], { NOCREATE: true }), /not found/);
}

async function cuckoo(client, RESP) {
  assert.equal(await client.cf.reserve("c", 1000), "OK");
  assert.equal(
    await client.cf.reserve("d", 1000, { BUCKETSIZE: 4, MAXITERATIONS: 30, EXPANSION: 2 }), "OK");
  assert.equal(await client.cf.add("c", "a"), true);
  assert.equal(await client.cf.add("c", "a"), true);
  assert.equal(await client.cf.addNX("c", "a"), false);
  assert.equal(await client.cf.count("c", "a"), 2);
  assert.deepEqual(await client.cf.insert("c", ["b", "c"]), [true, true]);
  // Numbers stay numbers in RESP3, as -1 may be among them.
  const added = await client.cf.insertNX("c", ["b", "d"]);
  assert.deepEqual(added, RESP === 3 ? [0, 1] : [false, true]);
  assert.equal(await client.cf.exists("c", "b"), true);
  assert.equal(await client.cf.exists("c", "absent"), false);
  assert.equal(await client.cf.del("c", "a"), true);
  assert.equal(await client.cf.count("c", "a"), 1);
  const info = await client.cf.info("c");
  assert.equal(info["Number of items deleted"], 1);
  assert.equal(info["Bucket size"], 2);
  await assert.rejects(client.cf.reserve("c", 1000), /item exists/);
}

async function chunks(commands, from, to) {
  for (let cursor = 0; ;) {
    const { iterator, chunk } = await commands.scanDump(from, cursor);
    if (iterator === 0) return;
    assert.equal(await commands.loadChunk(to, iterator, chunk), "OK");
    cursor = iterator;
  }
}

async function main() {
  const [port, RESP] = process.argv.slice(2).map(Number);
  const client = createClient({ socket: { host: "127.0.0.1", port }, RESP });
  client.on("error", (error) => { throw error; });
  await client.connect();
  await client.flushAll();
  await bloom(client);
  await cuckoo(client, RESP);
  const { RESP_TYPES } = require("redis");
  const buffers = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  await chunks(buffers.bf, "f", "f again");
  await chunks(buffers.cf, "c", "c again");
  assert.deepEqual(await client.bf.mExists("f again", ["a", "d", "absent"]), [true, true, false]);
  assert.equal(await client.cf.count("c again", "a"), 1);
  const replies = await client.multi().bf.add("m", "a").cf.add("mc", "a").bf.exists("m", "a").exec();
  assert.deepEqual(replies, [true, true, true]);
  client.destroy();
}

main().catch((error) => { console.error(error); process.exit(1); });
