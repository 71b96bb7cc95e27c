// Uses the cluster view the way node applications do: createCluster of node-redis.
//   node cluster.mjs HOST:PORT[,HOST:PORT...]
import assert from "node:assert/strict";
import { createCluster } from "redis";

const KEYS = 200;

const checks = {
  async single_keys(cluster) {
    for (let index = 0; index < KEYS; index++) assert.equal(await cluster.set(`key:${index}`, `${index}`), "OK");
    for (let index = 0; index < KEYS; index++) assert.equal(await cluster.get(`key:${index}`), `${index}`);
    assert.equal(await cluster.incrBy("key:7", 3), 10);
  },
  async pipeline(cluster) {
    const writes = Array.from({ length: KEYS }, (_, index) => cluster.set(`p${index}`, `${index}`));
    assert.deepEqual([...new Set(await Promise.all(writes))], ["OK"]);
    const reads = Array.from({ length: KEYS }, (_, index) => cluster.get(`p${index}`));
    assert.deepEqual(await Promise.all(reads), Array.from({ length: KEYS }, (_, index) => `${index}`));
  },
  async hash_tags(cluster) {
    assert.equal(await cluster.mSet({ "{user}a": "1", "{user}b": "2" }), "OK");
    assert.deepEqual(await cluster.mGet(["{user}a", "{user}b"]), ["1", "2"]);
  },
  async transactions(cluster) {
    assert.deepEqual(await cluster.multi().set("{n}", "1").incr("{n}").exec(), ["OK", 2]);
  },
  async several_slots(cluster) {
    // The first key decides the node; the server serves the others as well.
    assert.equal(await cluster.mSet({ x1: "1", x2: "2", x3: "3" }), "OK");
    assert.deepEqual(await cluster.mGet(["x1", "x2", "x3"]), ["1", "2", "3"]);
  },
  async masters_have_everything(cluster) {
    let keys = 0;
    const found = new Set();
    for (const master of cluster.masters) {
      const client = await cluster.nodeClient(master);
      keys += await client.dbSize();
      for await (const some of client.scanIterator({ MATCH: "p*", COUNT: 100 })) some.forEach((key) => found.add(key));
    }
    assert.equal(found.size, KEYS);
    assert.equal(keys, 2 * KEYS + 6);
  },
};

const addresses = process.argv[2].split(",");
let failed = 0;
for (const useReplicas of [false, true]) {
  const rootNodes = addresses.map((address) => ({ url: `redis://${address}` }));
  const cluster = createCluster({ rootNodes, useReplicas });
  cluster.on("error", () => {});
  await cluster.connect();
  for (const master of cluster.masters) await (await cluster.nodeClient(master)).flushAll();
  if (useReplicas) {
    // Reads may come from copies that are a moment behind: only that they are answered is certain.
    await cluster.set("a", "1");
    for (let left = 200; (await cluster.get("a")) !== "1"; left--) assert.ok(left > 0, "a copy never caught up");
  } else {
    for (const [name, check] of Object.entries(checks)) {
      try {
        await check(cluster);
      } catch (error) {
        failed += 1;
        console.log(`  FAILED ${name}: ${error.stack}`);
      }
    }
  }
  await cluster.close();
}
console.log(`node-redis, cluster: ${Object.keys(checks).length + 1 - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
