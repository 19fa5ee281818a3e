// SPDX-License-Identifier: MIT
// The lines that make a filter with the options that were planned, and use it.  Windows end their periods of a minute
// by the clock; filters from which keys are removed store a copy for each add.
import { sizedAs } from './planner.js';

const lines = (...all) => all.filter((line) => line !== null).join('\n');

/** How much room a filter that processes share gets for growth: a power of two above eight times its bytes. */
const roomFor = (bytes) => 2 ** Math.ceil(Math.log2(8 * bytes));

/** The options that are not the defaults: [name, value], besides the capacity and the rate. */
const chosen = ({ kind, layout, window, windowRenews, growable, shared }, bytes) => Object.entries({
  kind: kind !== 'bloom' && kind, layout: layout !== 'blocked' && layout, window, window_renews: windowRenews,
  growable: growable ? null : 'false', max_bytes: shared && growable && roomFor(bytes),
}).filter(([, value]) => value);

const constant = (name, value) => ({ kind: `TAMIS_${value}`, layout: `TAMIS_LAYOUT_${value}` }[name]?.toUpperCase() ?? value);

function inC(options, removes, bytes) {
  const { capacity, fpp, window, shared } = options;
  return lines(
    '#include <tamis/tamis.h>',
    window ? '#include <time.h>' : null,
    '',
    'tamis_options options = TAMIS_OPTIONS_INIT;',
    `options.capacity = ${capacity}, options.fpp = ${fpp};`,
    ...chosen(options, bytes).map(([name, value]) => `options.${name} = ${constant(name, value)};`),
    'tamis_filter *filter;',
    shared ? 'if (tamis_open_shared(&options, "/dev/shm/seen.tamis", &filter) != TAMIS_OK)' : 'if (tamis_create(&options, &filter) != TAMIS_OK)',
    `  return 1; /* ${shared ? 'tamis_shared_check' : 'tamis_options_check'} says why */`,
    window ? 'tamis_advance_to(filter, (uint64_t) time(NULL) / 60); /* periods of a minute */' : null,
    ...(removes ? ['if (tamis_add(filter, key, len) != TAMIS_OK) /* adds a copy */', '  return 1;', 'tamis_remove(filter, key, len); /* never more often than you added the key */'] :
      ['if (tamis_add_unique(filter, key, len) == TAMIS_OK)', '  puts("the key is new");']),
  );
}

function inCxx(options, removes, bytes) {
  const { capacity, fpp, window, shared } = options;
  const chain = `tamis::options(${capacity}).fpp(${fpp})${chosen(options, bytes).map(([name, value]) => `.${name}(${constant(name, value)})`).join('')}`;
  return lines(
    '#include <tamis/tamis.hpp>',
    window ? '#include <ctime>' : null,
    '',
    shared ? `auto filter = tamis::filter::open_shared(${chain}, "/dev/shm/seen.tamis");` : `tamis::filter filter(${chain});`,
    window ? 'filter.advance_to(std::uint64_t(std::time(nullptr)) / 60); // periods of a minute' : null,
    ...(removes ? ['filter.add(key); // adds a copy', 'filter.remove(key); // never more often than you added the key'] :
      ['if (filter.add_unique(key))', '  std::puts("the key is new");']),
  );
}

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, '_');
const pythonClasses = { bloom: 'Bloom', cuckoo: 'Cuckoo', counting_bloom: 'CountingBloom' };

function inPython(options, removes, bytes) {
  const { kind, layout, capacity, fpp, window, shared } = options;
  const texts = { kind: `tamis.${pythonClasses[kind]}`, layout: `"${layout}"`, window_renews: 'True', growable: 'False' };
  const named = chosen(options, bytes).filter(([name]) => shared || name !== 'kind').map(([name, value]) => `, ${name}=${texts[name] ?? value}`).join('');
  return lines(
    window ? 'import time' : null,
    'import tamis',
    '',
    `filter = tamis.${shared ? 'shared("/dev/shm/seen.tamis", ' : `${pythonClasses[kind]}(`}${grouped(capacity)}, ${fpp}${named})`,
    window ? 'filter.advance_to(int(time.time() // 60))  # periods of a minute' : null,
    'if filter.add(key):',
    '    print("the key is new")',
    removes ? 'filter.discard(key)  # never more often than you added the key' : null,
  );
}

function inJavaScript(options, removes, bytes) {
  const { kind, layout, capacity, fpp, window, shared } = options;
  const texts = { kind: `'${kind}'`, layout: `'${layout}'` };
  const named = chosen(options, bytes).map(([name, value]) => `, ${name.replace(/_(.)/, (_all, letter) => letter.toUpperCase())}: ${texts[name] ?? value}`).join('');
  return lines(
    `import { Filter } from 'tamis';${shared ? ' // in Node, with the addon' : ''}`,
    '',
    `const filter = ${shared ? "Filter.shared('/dev/shm/seen.tamis', " : 'new Filter('}{ capacity: ${grouped(capacity)}, fpp: ${fpp}${named} });`,
    window ? 'filter.advanceTo(Math.floor(Date.now() / 60_000)); // periods of a minute' : null,
    'if (filter.add(key))',
    "  console.log('the key is new');",
    removes ? 'filter.remove(key); // never more often than you added the key' : null,
  );
}

function inRedis({ kind, layout, capacity, fpp, window, windowRenews, growable }, removes) {
  if (kind === 'counting_bloom')
    return '# The module has no counting Bloom filter. Its cuckoo filters remove keys, too.';
  const wanted = window ? ` WINDOW ${window} EVERY 60000${windowRenews ? ' RENEWS' : ''}` : '';
  const clock = window ? '# EVERY: the milliseconds of a period' : null;
  if (kind === 'bloom')
    return lines(layout && layout !== 'classic' ? "# The module's Bloom filters have the classic layout." : null, clock,
      `BF.RESERVE seen ${fpp} ${capacity}${growable ? '' : ' NONSCALING'}${wanted}`, 'BF.ADD seen key-1');
  return lines(clock, `CF.RESERVE seen ${capacity}${growable ? '' : ' EXPANSION 0'} ERROR ${fpp}${wanted}`,
    removes ? 'CF.ADD seen key-1' : 'CF.ADDNX seen key-1', removes ? 'CF.DEL seen key-1' : null);
}

function asCommand(options) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable, shared } = options;
  const filter = (one) => `--capacity ${capacity} --fpp ${fpp} --kind ${one === 'counting_bloom' ? 'counting' : one}${layout && layout !== 'blocked' ? ` --layout ${layout}` : ''}`;
  const { kind: sizeKind, window: sizeWindow } = sizedAs(options);
  const size = `tamis size ${filter(sizeKind)}${sizeWindow ? ` --window ${sizeWindow}` : ''}${growable || (sizeKind === 'bloom' && !sizeWindow) ? '' : ' --fixed'}`;
  if (shared && kind === 'cuckoo')
    return lines(size, '# This window takes as much memory as the shared cuckoo filter, which the command cannot make.');
  const file = shared ? ' --shared seen.shared' : '';
  if (window)
    return lines(size, `tamis dedup ${filter(kind)} --window ${window} --period 60${windowRenews ? ' --renew' : ''}${file} lines.txt`);
  return lines(
    kind === 'bloom' && !growable ? '# The command makes only Bloom filters that grow, which take more memory.' : null,
    size,
    ...(shared ? [`tamis dedup ${filter(kind)}${file} lines.txt`] :
      [`tamis build ${filter(kind)}${kind === 'cuckoo' && !growable ? ' --fixed' : ''} keys.txt -o keys.tamis`, 'tamis query keys.tamis lines.txt']),
  );
}

/** In each language: [name, text]. */
export function snippets(need, { options, bytes }) {
  const removes = need.removes && options.kind !== 'bloom';
  return [['C', inC], ['C++', inCxx], ['Python', inPython], ['JavaScript', inJavaScript], ['Redis', inRedis], ['Command', asCommand]]
    .map(([name, make]) => [name, make(options, removes, bytes)]);
}
