// SPDX-License-Identifier: MIT
// The planner in WebAssembly says what `tamis size` says, to the byte, for a process that may use one core: the number
// of locks and counters follows the cores.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { bytesFor, fppFor, whyRefused } from '../src/node-wasm.js';

const command = process.env.TAMIS_COMMAND;
const inputs = 1000;

/** The same numbers in every run: the generator of Numerical Recipes. */
let state = 1;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const choice = (...values) => values[Math.floor(random() * values.length)];

function anyOptions() {
  const kind = choice('bloom', 'bloom', 'cuckoo', 'counting_bloom');
  const window = kind !== 'counting_bloom' && random() < 0.3 ? 1 + Math.floor(random() * 64) : 0;
  return {
    kind,
    window,
    layout: kind === 'bloom' && !window ? choice('blocked', 'classic', 'word') : 'blocked',
    growable: kind === 'cuckoo' || window ? random() < 0.5 : true,
    capacity: Math.ceil(10 ** (random() * 11)),
    fpp: Number((10 ** (-0.1 - 9 * random())).toPrecision(3)),
  };
}

function argumentsOf(o) {
  return [`--capacity=${o.capacity}`, `--fpp=${o.fpp}`, `--kind=${o.kind === 'counting_bloom' ? 'counting' : o.kind}`,
    ...(o.kind === 'bloom' && !o.window ? [`--layout=${o.layout}`] : []), ...(o.window ? [`--window=${o.window}`] : []),
    ...(!o.growable && (o.kind === 'cuckoo' || o.window) ? ['--fixed'] : [])];
}

/** What the command prints for each: one process for all, which starts the others. */
function printed(all) {
  const script = all.map((o) => `"$0" size ${argumentsOf(o).join(' ')} 2>&1; echo "status $?"`).join('\n');
  const text = execFileSync('taskset', ['-c', '0', 'sh', '-c', script, command], { encoding: 'utf8', maxBuffer: 2 ** 26 });
  return text.split(/status \d+\n/).slice(0, -1);
}

test('the command says the same', { skip: command ? false : 'TAMIS_COMMAND names no program' }, () => {
  const all = Array.from({ length: inputs }, anyOptions);
  let planned = 0;
  printed(all).forEach((text, i) => {
    const bytes = /^bytes +(\d+)/m.exec(text)?.[1];
    const shown = JSON.stringify(all[i]);
    if (bytes) {
      assert.equal(bytesFor(all[i]), Number(bytes), shown);
      planned++;
    } else {
      assert.throws(() => bytesFor(all[i]), { name: /Error/ }, `${shown}: ${text}`);
    }
  });
  assert.ok(planned > inputs / 2, `${planned} of ${inputs} were planned`);
});

test('rates and refusals', () => {
  const o = { capacity: 1e6 };
  const rate = fppFor(o, 1455040);
  assert.ok(rate > 0.009 && rate <= 0.01, String(rate));
  assert.ok(bytesFor({ ...o, fpp: rate * 1.01 }) <= 1455040);
  assert.equal(whyRefused(o), null);
  assert.equal(whyRefused({ capacity: 5, fpp: 2 }), 'fpp is 2; it must be above 0 and below 1');
  assert.match(whyRefused({ capacity: 1e11 }), /^capacity is 100000000000; a filter of \d+ bytes is larger than/);
  assert.ok(bytesFor({ capacity: 1e11 }) > 2 ** 36, 'which is planned all the same');
});
