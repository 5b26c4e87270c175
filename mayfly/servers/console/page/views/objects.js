/** Definitions of all kinds of objects. */
import { ask } from '../api.js';
import { define, definition } from '../definition.js';
import { fill, h } from '../dom.js';
import { counted } from '../format.js';
import { fail } from '../notices.js';
import { roleButton } from '../roles.js';
import { go, keep, to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** The words of kinds as people read them; another kind is its own word. */
const KINDS = {
  qlocal: 'Local queues', qalias: 'Alias queues', qremote: 'Remote queues', qmodel: 'Model queues', topic: 'Topics', sub: 'Subscriptions',
  channel: 'Channels', clntconn: 'Client channels', process: 'Processes', authinfo: 'Authentication', qmgr: 'Queue manager',
  listener: 'Listeners', service: 'Services', namelist: 'Namelists', comminfo: 'Communication', stgclass: 'Storage classes', policy: 'Policies',
};
const MOST = 10_000;

/** @param {HTMLElement} main @param {{args: string[], query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { args: [kind = 'qlocal', name], query, signal }) {
  if (name) {
    main.append(h('div', { class: 'page-head' }, h('h1', {}, name), h('a', { href: to(['objects', kind]) }, KINDS[kind] ?? kind)), await definition(kind, name, signal));
    return;
  }
  const { kinds } = await ask('GET', here('kinds'), { signal });
  const choice = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Kind', onchange: () => go(['objects', choice.value]) },
    kinds.map((/** @type {any} */ one) => h('option', { value: one.kind, selected: one.kind === kind }, `${KINDS[one.kind] ?? one.kind}${one.is_kept_only ? ' (kept only)' : ''}`))));
  const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', value: query.get('find') ?? '', 'aria-label': 'Part of the name', placeholder: 'Part of the name', oninput: draw }));
  const told = h('span', { class: 'quiet', role: 'status' });
  const begin = () => define(kind).catch(fail);
  const isDefinable = kinds.find((/** @type {any} */ one) => one.kind === kind)?.is_definable;
  const { definitions } = await ask('GET', here('definitions', kind), { query: { limit: MOST }, signal });
  const table = dataTable({
    label: KINDS[kind] ?? kind, sort: 'name', fills: true, key: (one) => one.name, open: (one) => go(['objects', kind, one.name]), empty: 'Nothing is defined.',
    columns: [
      { key: 'name', label: 'Name', value: (one) => one.name },
      { key: 'descr', label: 'Description', value: (one) => one.attributes.descr ?? '' },
      { key: 'more', label: 'Says', value: (one) => said(one.attributes) },
    ],
  });

  function draw() {
    const part = find.value.trim().toUpperCase();
    const found = definitions.filter((/** @type {any} */ one) => one.name.toUpperCase().includes(part));
    keep(['objects', kind], { find: find.value.trim() });
    fill(told, counted(found.length, 'object'));
    table.set(found);
  }

  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Objects'), told, h('div', { class: 'tools' }, choice, find, isDefinable && roleButton('administer', { class: 'main', onclick: begin }, 'Define…'))), table.element);
  draw();
}

const TELLING = ['target', 'targq', 'rname', 'rqmname', 'topicstr', 'dest', 'chltype', 'conname', 'authtype', 'applicid', 'capexpry', 'maxdepth'];

/** The attributes that tell most of an object. @param {Record<string, any>} attributes */
const said = (attributes) => TELLING.filter((keyword) => !['', 'NOLIMIT', undefined].includes(attributes[keyword])).slice(0, 3).map((keyword) => `${keyword.toUpperCase()}(${attributes[keyword]})`).join(' ');
