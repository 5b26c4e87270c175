/** Which Mayfly this is, who looks at it, and its limits. */
import { ask } from '../api.js';
import { factList, h } from '../dom.js';
import { state } from '../format.js';
import { role, session } from '../session.js';

const LIMITS = [
  ['Live figures', 'each second; the 200 queues with the most messages, the others together'],
  ['Queues, objects', 'the first 10,000 by name'],
  ['Dead letters', 'the first 1,000 in the order of gets'],
  ['Undo of a reschedule', 'up to 1,000 messages, while the message stays'],
  ['Stories', 'the latest 50 lives of each place; rows that retention has removed are not found'],
];
const SHAPES = ['delayed', 'available', 'uncommitted', 'locked', 'expired', 'dead_lettered', 'got'];

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const { info } = await ask('GET', '/mayfly/v1/openapi.json', { signal });
  const managers = Object.entries(session.managers).map(([name, word]) => /** @type {[string, any]} */ ([`Queue manager ${name}`, word]));
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'About')),
    h('div', { class: 'panels wide' },
      h('section', { class: 'panel', 'aria-labelledby': 'server' }, h('h2', { id: 'server' }, 'Server'), factList(
        ['Mayfly', info.version], ...managers, ['Address', location.origin], ['User', `${session.user}, ${role()}`],
        ['Interface', [h('a', { href: '/mayfly/v1/docs/' }, 'Operations'), ', ', h('a', { href: '/mayfly/v1/openapi.json' }, 'OpenAPI 3.1')]])),
      h('section', { class: 'panel', 'aria-labelledby': 'states' }, h('h2', { id: 'states' }, 'States'),
        h('ul', { class: 'plain' }, SHAPES.map((word) => h('li', {}, state(word))))),
      h('section', { class: 'panel', 'aria-labelledby': 'limits' }, h('h2', { id: 'limits' }, 'Limits of this page'), factList(...LIMITS)),
      h('section', { class: 'panel', 'aria-labelledby': 'parts' }, h('h2', { id: 'parts' }, 'Made with'),
        h('p', {}, 'Plots by uPlot, under the ', h('a', { href: 'vendor/uplot.LICENSE' }, 'MIT License'), '.'))));
}
