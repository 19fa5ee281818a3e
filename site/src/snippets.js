// SPDX-License-Identifier: MIT
// The lines that make a filter with the options that were planned, and use it.

const lines = (...all) => all.filter((line) => line !== null).join('\n');

/** How much room a filter that processes share gets for growth: a power of two above eight times its bytes. */
const roomFor = (bytes) => 2 ** Math.ceil(Math.log2(8 * bytes));

const isShared = ({ users }, { kind }) => users === 'processes' && kind === 'bloom';

const cKinds = { cuckoo: 'TAMIS_CUCKOO', counting_bloom: 'TAMIS_COUNTING_BLOOM' };
const cLayouts = { classic: 'TAMIS_LAYOUT_CLASSIC', word: 'TAMIS_LAYOUT_WORD' };

function inC(need, { options, bytes }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  const shared = isShared(need, options);
  return lines(
    '#include <tamis/tamis.h>',
    '',
    'tamis_options options = TAMIS_OPTIONS_INIT;',
    `options.capacity = ${capacity}, options.fpp = ${fpp};`,
    kind === 'bloom' ? null : `options.kind = ${cKinds[kind]};`,
    cLayouts[layout] && !window ? `options.layout = ${cLayouts[layout]};` : null,
    window ? `options.window = ${window}; /* tamis_advance(filter) ends a period */` : null,
    window && windowRenews ? 'options.window_renews = true;' : null,
    growable ? null : 'options.growable = false;',
    shared && growable ? `options.max_bytes = ${roomFor(bytes)}; /* for growth: choose it */` : null,
    'tamis_filter *filter;',
    shared ? 'if (tamis_open_shared(&options, "/dev/shm/seen.tamis", &filter) != TAMIS_OK)' : 'if (tamis_create(&options, &filter) != TAMIS_OK)',
    '  return 1; /* tamis_options_check says why */',
    'if (tamis_add_unique(filter, key, len) == TAMIS_OK)',
    '  puts("the key is new");',
    need.removes && kind !== 'bloom' ? 'tamis_remove(filter, key, len); /* only what was added */' : null,
  );
}

function inCxx(need, { options, bytes }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  const shared = isShared(need, options);
  const chain = [
    `tamis::options(${capacity})`,
    kind === 'bloom' ? null : `.kind(${cKinds[kind]})`,
    cLayouts[layout] && !window ? `.layout(${cLayouts[layout]})` : null,
    `.fpp(${fpp})`,
    window ? `.window(${window})` : null,
    window && windowRenews ? '.window_renews(true)' : null,
    growable ? null : '.growable(false)',
    shared && growable ? `.max_bytes(${roomFor(bytes)})` : null,
  ].filter(Boolean).join('');
  return lines(
    '#include <tamis/tamis.hpp>',
    '',
    shared ? `auto filter = tamis::filter::open_shared(${chain}, "/dev/shm/seen.tamis");` : `tamis::filter filter(${chain});`,
    'if (filter.add_unique(key))',
    '  std::puts("the key is new");',
    need.removes && kind !== 'bloom' ? 'filter.remove(key); // only what was added' : null,
    window ? 'filter.advance(); // when a period has ended' : null,
  );
}

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, '_');
const pythonClasses = { bloom: 'Bloom', cuckoo: 'Cuckoo', counting_bloom: 'CountingBloom' };

function inPython(need, { options, bytes }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  const shared = isShared(need, options);
  const named = [
    layout && layout !== 'blocked' && !window ? `layout="${layout}"` : null,
    window ? `window=${window}` : null,
    window && windowRenews ? 'window_renews=True' : null,
    growable || shared ? null : 'growable=False',
    shared && growable ? `max_bytes=${roomFor(bytes)}` : null,
  ].filter(Boolean).map((argument) => `, ${argument}`).join('');
  return lines(
    'import tamis',
    '',
    shared ? `filter = tamis.shared("/dev/shm/seen.tamis", ${grouped(capacity)}, ${fpp}${named})` :
      `filter = tamis.${pythonClasses[kind]}(${grouped(capacity)}, ${fpp}${named})`,
    'if filter.add(key):',
    '    print("the key is new")',
    need.removes && kind !== 'bloom' ? 'filter.discard(key)  # only what was added' : null,
    window ? 'filter.advance()  # when a period has ended; tamis.Ticker does it by the clock' : null,
  );
}

function inJavaScript(need, { options }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  const fields = [
    `capacity: ${grouped(capacity)}`,
    `fpp: ${fpp}`,
    kind === 'bloom' ? null : `kind: '${kind}'`,
    layout && layout !== 'blocked' && !window ? `layout: '${layout}'` : null,
    window ? `window: ${window}` : null,
    window && windowRenews ? 'windowRenews: true' : null,
    growable ? null : 'growable: false',
  ].filter(Boolean).join(', ');
  return lines(
    isShared(need, options) ? '// Processes cannot share this one: it belongs to one thread.' : null,
    "import { Filter } from 'tamis';",
    '',
    `const filter = new Filter({ ${fields} });`,
    'if (filter.add(key))',
    "  console.log('the key is new');",
    need.removes && kind !== 'bloom' ? 'filter.remove(key); // only what was added' : null,
    window ? 'filter.advance(); // when a period has ended' : null,
  );
}

function inRedis(need, { options }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  if (kind === 'counting_bloom')
    return '# The module has no counting Bloom filter.  A cuckoo filter removes keys, too.';
  const wanted = window ? ` WINDOW ${window} EVERY 60000${windowRenews ? ' RENEWS' : ''}` : '';
  const note = layout && layout !== 'blocked' && !window ? '# The module has no such layout; this filter is blocked.' : null;
  const clock = window ? '# a period of 60000 ms: choose it' : null;
  if (kind === 'bloom')
    return lines(note, clock, `BF.RESERVE seen ${fpp} ${capacity}${growable ? '' : ' NONSCALING'}${wanted}`, 'BF.ADD seen key-1');
  return lines(clock, `CF.RESERVE seen ${capacity}${growable ? '' : ' EXPANSION 0'} ERROR ${fpp}${wanted}`, 'CF.ADDNX seen key-1',
    need.removes ? 'CF.DEL seen key-1' : null);
}

/** The arguments of `tamis size` that make it compute the same. */
export function sizeArguments({ kind, layout, capacity, fpp, window, growable }) {
  const canBeFixed = kind === 'cuckoo' || window;
  return [
    `--capacity ${capacity}`,
    `--fpp ${fpp}`,
    `--kind ${kind === 'counting_bloom' ? 'counting' : kind}`,
    kind === 'bloom' && !window && layout !== 'blocked' ? `--layout ${layout}` : null,
    window ? `--window ${window}` : null,
    canBeFixed && !growable ? '--fixed' : null,
  ].filter(Boolean).join(' ');
}

function asCommand(need, { options }) {
  const { kind, layout, capacity, fpp, window, windowRenews, growable } = options;
  const size = `tamis size ${sizeArguments(options)}`;
  const common = `--capacity ${capacity} --fpp ${fpp} --kind ${kind === 'counting_bloom' ? 'counting' : kind}`;
  if (window) {
    const shared = isShared(need, options) ? ' --shared seen.shared' : '';
    return lines(size, `tamis dedup ${common} --window ${window} --period 60${windowRenews ? ' --renew' : ''}${shared} lines.txt`);
  }
  return lines(
    kind === 'bloom' && !growable ? '# The command plans Bloom filters that grow, which take some more.' : null,
    size,
    `tamis build ${common}${layout && layout !== 'blocked' ? ` --layout ${layout}` : ''}${kind === 'cuckoo' && !growable ? ' --fixed' : ''} keys.txt -o keys.tamis`,
    'tamis query keys.tamis lines.txt',
  );
}

/** In each language: [name, text]. */
export function snippets(need, row) {
  return [['C', inC], ['C++', inCxx], ['Python', inPython], ['JavaScript', inJavaScript], ['Redis', inRedis], ['Command', asCommand]]
    .map(([name, make]) => [name, make(need, row)]);
}
