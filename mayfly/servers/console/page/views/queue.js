/** One queue: where its messages stand, how lives ended, its attributes. */
import { ask, rest } from '../api.js';
import { factList, fill, h } from '../dom.js';
import { count, duration, stateWord, state } from '../format.js';
import { problemPanel } from '../notices.js';
import { watch } from '../live.js';
import { to } from '../router.js';
import { here, may, session } from '../session.js';
import { dataTable } from '../table.js';

const STATES = [['live', 'Live'], ['staged', 'Waiting'], ['uncommitted', 'Uncommitted'], ['locked', 'Locked'], ['expired_present', 'Expired, still there']];

/** @param {HTMLElement} main @param {{args: string[], signal: AbortSignal}} place */
export async function show(main, { args: [name], signal }) {
  const numbers = Object.fromEntries(STATES.map(([word]) => [word, h('strong', {}, '·')]));
  const facts = h('div');
  const ends = h('div');
  const attributes = dataTable({
    label: 'Attributes', key: ([keyword]) => keyword, empty: 'Administrators see them.',
    columns: [
      { key: 'keyword', label: 'Attribute', value: ([keyword]) => keyword.toUpperCase() },
      { key: 'value', label: 'Value', value: ([, value]) => String(value) },
    ],
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, name), h('a', { href: to(['queues']) }, 'All queues')),
    h('div', { class: 'panel tiles' }, STATES.map(([word, title]) => h('div', { class: 'tile', 'data-state': word }, state(word, title), numbers[word]))),
    h('div', { class: 'panels' },
      h('section', { class: 'panel', 'aria-labelledby': 'use' }, h('h2', { id: 'use' }, 'Use'), facts),
      h('section', { class: 'panel', 'aria-labelledby': 'ends' }, h('h2', { id: 'ends' }, 'Lives by how they ended'), ends)),
    h('h2', {}, 'Attributes'), attributes.element,
  );
  const draw = (/** @type {any} */ queue) => {
    for (const [word] of STATES) fill(numbers[word], count(queue.present?.[word] ?? 0));
    fill(facts, factList(
      ['Depth', count(queue.depth)],
      ['Oldest message', queue.oldest_age_ms === null ? 'none' : duration(queue.oldest_age_ms)],
      ['Open for input', count(queue.input_count)],
      ['Open for output', count(queue.output_count)],
    ));
    fill(ends, endList(queue));
  };
  draw(await ask('GET', here('queues', name), { signal }));
  watch((snapshot) => {
    const found = snapshot.queues.find((queue) => queue.name === name);
    if (found) draw(found);
  }, signal);
  if (may('administer')) {
    try {
      attributes.set(await attributesOf(name, signal));
    } catch (error) {
      attributes.element.replaceWith(problemPanel(error));
    }
  } else attributes.set([]);
}

/** @param {{puts: number, ended: Record<string, number>}} queue */
function endList({ puts, ended }) {
  const words = Object.keys(ended).filter((word) => ended[word]).sort((a, b) => ended[b] - ended[a]);
  const rows = words.map((word) => [state(word, stateWord(word)), `${count(ended[word])} · ${((100 * ended[word]) / puts).toFixed(1)} %`]);
  return factList(['Puts', count(puts)], ...rows);
}

/** @param {string} name @param {AbortSignal} signal @returns {Promise<[string, any][]>} */
async function attributesOf(name, signal) {
  const body = { type: 'runCommandJSON', command: 'display', qualifier: 'qlocal', name, responseParameters: ['all'] };
  const path = rest(`/admin/action/qmgr/${encodeURIComponent(session.manager)}/mqsc`);
  const answer = await ask('POST', path, { body, signal });
  return Object.entries(answer.commandResponse[0]?.parameters ?? {});
}
