/** One queue: where its messages stand, how lives ended, its last week, its attributes. */
import { ask } from '../api.js';
import { definition } from '../definition.js';
import { factList, fill, h } from '../dom.js';
import { count, moment, state } from '../format.js';
import { heatMap } from '../heat_map.js';
import { now, watch } from '../live.js';
import { overTime, SPANS } from '../over_time.js';
import { keep, to } from '../router.js';
import { here } from '../session.js';
import { withOldest } from './queues.js';

const STATES = [['live', 'Live'], ['staged', 'Waiting'], ['uncommitted', 'Uncommitted'], ['locked', 'Locked'], ['expired_present', 'Expired, still there']];

/** @param {HTMLElement} main @param {{args: string[], query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { args: [name], query, signal }) {
  const over = query.get('over') ?? 'hour';
  const charts = overTime({ queue: name, over: over in SPANS ? over : 'hour', signal, changed: (chosen) => keep(['queue', name], { over: chosen }) });
  const deaths = heatMap({ queue: name, signal });
  const numbers = Object.fromEntries(STATES.map(([word]) => [word, h('strong', {}, '·')]));
  const facts = h('div');
  const ends = h('div');
  const inhibited = h('div', { class: 'stack tight', role: 'status' });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, name), h('a', { href: to(['messages', name]) }, 'Its messages'), h('a', { href: to(['put', name]) }, 'Put a message'), h('a', { href: to(['queues']) }, 'All queues'), h('a', { href: to(['schedule'], { queue: name }) }, 'Its schedule')),
    inhibited,
    h('div', { class: 'panel tiles' }, STATES.map(([word, title]) => h('a', { class: 'tile', 'data-figure': word, href: to(['messages', name], { state: word }) }, state(word, title), numbers[word]))),
    h('div', { class: 'panels' },
      h('section', { class: 'panel', 'aria-labelledby': 'use' }, h('h2', { id: 'use' }, 'Use'), facts),
      h('section', { class: 'panel', 'aria-labelledby': 'ends' }, h('h2', { id: 'ends' }, 'Lives by how they ended'), ends)),
    deaths.element, h('div', { class: 'tools' }, h('h2', {}, 'Over time'), charts.span), charts.element,
  );
  const draw = (/** @type {any} */ queue) => {
    for (const [word] of STATES) fill(numbers[word], count(queue.present?.[word] ?? 0));
    fill(facts, factList(
      ['Depth', count(queue.depth)],
      ['Oldest message', queue.oldest_put_ms === null ? 'none' : moment(queue.oldest_put_ms, now())],
      ['Open for input', count(queue.input_count)],
      ['Open for output', count(queue.output_count)],
    ));
    fill(ends, endList(queue));
  };
  draw(withOldest(await ask('GET', here('queues', name), { signal }), now()));
  let isFirst = true;
  watch((snapshot) => {
    const found = snapshot.queues.get(name);
    // The first one may be from before the answer above.
    if (found && !isFirst) draw(found);
    isFirst = false;
  }, signal);
  const defined = definition('qlocal', name, signal, (attributes, change) => fill(inhibited, ['put', 'get'].filter((verb) => attributes[verb] === 'DISABLED').map((verb) => warning(verb, change))));
  await Promise.all([charts.load(), deaths.load(), defined]);
  main.append(await defined);
}

/** That programs may not put or get, and the way to change it. @param {string} verb @param {(keyword: string) => void} [change] */
function warning(verb, change) {
  const keyword = verb.toUpperCase();
  return h('p', { class: 'panel error' }, `Programs cannot ${verb}: ${keyword}(DISABLED). `, change && h('button', { type: 'button', onclick: () => change(verb) }, `Change ${keyword}…`));
}

/** @param {{puts: number, ended: Record<string, number>}} queue */
function endList({ puts, ended }) {
  const words = Object.keys(ended).filter((word) => ended[word]).sort((a, b) => ended[b] - ended[a]);
  const rows = words.map((word) => [state(word), `${count(ended[word])} · ${((100 * ended[word]) / puts).toFixed(1)} %`]);
  return factList(['Puts', count(puts)], ...rows);
}
