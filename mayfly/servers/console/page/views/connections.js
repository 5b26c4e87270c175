/** Open connections of programs, what they have open, and their end. */
import { ask } from '../api.js';
import { confirm } from '../dialog.js';
import { fill, h } from '../dom.js';
import { counted, duration, moment } from '../format.js';
import { now } from '../live.js';
import { fail, say } from '../notices.js';
import { refreshing } from '../refresh.js';
import { roleButton, whyNot } from '../roles.js';
import { keep } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', value: query.get('find') ?? '', 'aria-label': 'User, program, channel, address or queue', placeholder: 'User, program, queue', oninput: draw }));
  const told = h('span', { class: 'quiet', role: 'status' });
  const button = roleButton('operate', { class: 'destroys', onclick: () => stop().catch(fail) }, 'Stop…');
  const scope = h('span', { class: 'quiet' });
  const table = dataTable({
    label: 'Connections', sort: 'since', fills: true, key: (one) => one.id, empty: 'Nobody is connected.', chooses: sayScope,
    columns: [
      { key: 'id', label: 'CONN', value: (one) => one.id, cell: (one) => h('code', {}, one.id) },
      { key: 'user', label: 'User', value: (one) => one.user },
      { key: 'application', label: 'Program', value: (one) => one.application },
      { key: 'channel', label: 'Channel', value: (one) => one.channel, cell: (one) => one.channel || h('span', { class: 'quiet' }, 'local') },
      { key: 'address', label: 'Address', value: (one) => one.address, cell: (one) => `${one.address}${one.has_tls ? ' (TLS)' : ''}` },
      { key: 'open', label: 'Open', value: (one) => namesOf(one).join(', ') },
      { key: 'since', label: 'Connected', value: (one) => one.connected_ms, cell: (one) => moment(one.connected_ms) },
      { key: 'unit', label: 'Unit of work', number: true, title: 'How long it is open', value: (one) => one.unit_of_work_ms, cell: (one) => (one.unit_of_work_ms === null ? '' : duration(now() - one.unit_of_work_ms)) },
    ],
  });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Connections'), told, h('div', { class: 'tools' }, find)), h('div', { class: 'tools' }, button, scope), table.element);
  /** @type {any[]} */ let connections = [];

  function draw() {
    const part = find.value.trim().toUpperCase();
    const texts = (/** @type {any} */ one) => [one.id, one.user, one.application, one.channel, one.address, ...namesOf(one)];
    keep(['connections'], { find: find.value.trim() });
    const found = connections.filter((one) => texts(one).some((text) => text.toUpperCase().includes(part)));
    fill(told, counted(found.length, 'connection'));
    table.set(found);
  }

  function sayScope() {
    const chosen = table.chosen().length;
    button.disabled = Boolean(whyNot('operate')) || !chosen;
    fill(scope, whyNot('operate') ?? (chosen ? `${counted(chosen, 'connection')} chosen.` : 'Choose connections to stop them.'));
  }

  async function stop() {
    const chosen = table.chosen();
    const what = counted(chosen.length, 'connection');
    const effect = 'Units of work that are open are backed out, and the programs see MQRC_CONNECTION_BROKEN. All that the socket of a client carries ends with it.';
    if (!(await confirm({ title: `Stop ${what}?`, effect, action: `Stop ${what}`, destroys: true }))) return;
    let stopped = 0;
    for (const { id } of chosen) {
      await ask('POST', here('connections', id, 'stop')).then(() => (stopped += 1), fail);
    }
    say(`${counted(stopped, 'connection')} stopped.`);
    await again();
  }

  const again = await refreshing(async () => {
    ({ connections } = await ask('GET', here('connections'), { signal }));
    draw();
  }, signal);
}

/** The names of what a connection has open. @param {{handles: {kind: string, name: string}[]}} one */
const namesOf = ({ handles }) => [...new Set(handles.map(({ name }) => name))];
