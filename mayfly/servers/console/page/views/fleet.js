/** All queue managers of this server and of others: state, messages, what expired this week. */
import { ask, ofManager, Problem } from '../api.js';
import { askAt, otherServers, pageAt } from '../fleet.js';
import { fill, h } from '../dom.js';
import { count, counted, duration, state } from '../format.js';
import { replicaProblems } from '../replica.js';
import { refreshing } from '../refresh.js';
import { go } from '../router.js';
import { choose, isStandby, session } from '../session.js';
import { tell } from '../signals.js';
import { dataTable } from '../table.js';

/** @typedef {import('../fleet.js').Server} Server */
/** @typedef {{key: string, name: string, state: string, server: Server|null, figures: any, why: string}} Row without `server` it is of this one */

const STATES = { ready: 'available', standby: 'delayed', starting: 'delayed', draining: 'delayed', 'disk full': 'dead_lettered', impaired: 'dead_lettered' };
const known = (/** @type {string} */ field) => (/** @type {Row} */ { figures }) => (figures ? figures[field] : null);
const number = (/** @type {string} */ field, /** @type {string} */ label, /** @type {string} */ title) =>
  ({ key: field, label, title, number: true, value: known(field), cell: (/** @type {Row} */ { figures }) => (figures ? count(figures[field]) : '') });
const share = (/** @type {Row} */ { figures }) => (figures?.ended_count ? (100 * figures.expired_count) / figures.ended_count : null);
const COLUMNS = [
  { key: 'name', label: 'Queue manager', value: (/** @type {Row} */ row) => row.name, cell: nameCell },
  { key: 'server', label: 'Server', value: (/** @type {Row} */ { server }) => server?.name ?? '', cell: (/** @type {Row} */ { server }) => server?.name ?? 'this one' },
  { key: 'state', label: 'State', value: (/** @type {Row} */ row) => row.state, cell: (/** @type {Row} */ row) => state(STATES[row.state] ?? 'dead_lettered', row.state) },
  { key: 'standbys', label: 'Standbys', number: true, title: 'Servers that follow, and would take over; empty without a replica', value: standbyCount, cell: standbyCell },
  number('depth', 'Depth', 'CURDEPTH of all queues'),
  number('delayed', 'Delayed', 'Messages that wait for their delivery time'),
  number('dead_letters', 'Dead letters', 'On its dead-letter queue'),
  number('expired_count', 'Expired', 'Lives that expired in the last week'),
  { key: 'share', label: 'Expired share', number: true, title: 'Of all lives that ended in the last week', value: share, cell: (/** @type {Row} */ row) => (share(row) === null ? '' : `${share(row)?.toFixed(1)} %`) },
  { key: 'oldest', label: 'Oldest', number: true, title: 'Age of the oldest message', value: known('oldest_age_ms'), cell: (/** @type {Row} */ { figures }) => (figures?.oldest_age_ms ? duration(figures.oldest_age_ms) : '') },
  { key: 'why', label: 'Sign-in', value: (/** @type {Row} */ row) => row.why, cell: whyCell },
];

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const told = h('span', { class: 'quiet', role: 'status' });
  const table = dataTable({ label: 'Queue managers', sort: 'name', fills: true, columns: COLUMNS, key: (row) => row.key, open, empty: 'No queue manager is served.' });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Fleet'), told), table.element);
  const others = await otherServers(signal);
  // A server logs each request without a login: it is asked again when the user may have signed in.
  /** @type {Set<string>} */ const refused = new Set();
  window.addEventListener('focus', () => refused.clear(), { signal });
  await refreshing(async () => {
    const found = await Promise.all([rowsHere(signal), ...others.map((server) => rowsAt(server, refused, signal))]);
    const rows = found.flat();
    fill(told, `${counted(rows.length, 'queue manager')} of ${counted(others.length + 1, 'server')}`);
    table.set(rows);
  }, signal);
  if (document.activeElement === main) table.focus();
}

/** @param {AbortSignal} signal @returns {Promise<Row[]>} */
async function rowsHere(signal) {
  const { queue_managers } = await ask('GET', '/health/ready', { signal, quietly: true }).catch(probe);
  session.managers = queue_managers;
  return Promise.all(Object.entries(queue_managers).map(([name, word]) =>
    row(name, word, null, () => ask('GET', ofManager(name, 'summary'), { signal, quietly: true }))));
}

/** A probe that says no tells the states as well. @param {any} error */
function probe(error) {
  if (error instanceof Problem && error.content?.queue_managers) return error.content;
  throw error;
}

/** @param {Server} server @param {Set<string>} refused queue managers where nobody has signed in, by the keys of their rows @param {AbortSignal} signal @returns {Promise<Row[]>} */
async function rowsAt(server, refused, signal) {
  let states;
  try {
    ({ queue_managers: states } = await askAt(server, '/health/ready', signal));
  } catch (error) {
    if (signal.aborted) throw error;
    return [{ key: server.origin, name: server.origin, state: 'silent', server, figures: null, why: '' }];
  }
  return Promise.all(Object.entries(states).map(async ([name, word]) => {
    if (refused.has(keyOf(server, name))) return rowOf(name, word, server, null, SIGN_IN);
    const found = await row(name, word, server, () => askAt(server, ofManager(name, 'summary'), signal));
    if (found.why === SIGN_IN) refused.add(found.key);
    return found;
  }));
}

const SIGN_IN = 'sign in';
const keyOf = (/** @type {Server|null} */ server, /** @type {string} */ name) => `${server?.origin ?? ''} ${name}`;

/** @param {string} name @param {any} word @param {Server|null} server @param {any} figures @param {string} why @returns {Row} */
const rowOf = (name, word, server, figures, why) => ({ key: keyOf(server, name), name, state: String(word), server, figures, why });

/** @param {string} name @param {any} word @param {Server|null} server @param {() => Promise<any>} load @returns {Promise<Row>} */
async function row(name, word, server, load) {
  try {
    return rowOf(name, word, server, await load(), '');
  } catch (error) {
    const said = error instanceof Problem ? (error.status === 401 ? SIGN_IN : error.said) : '';
    return rowOf(name, word, server, null, said);
  }
}

/** Go to a queue manager: here, or at its server, which asks for its own sign-in. @param {Row} one */
function open({ name, server }) {
  if (server) {
    window.open(pageAt(server, 'overview', name), '_blank', 'noopener');
    return;
  }
  // The last column names the owner of a standby.
  if (isStandby(name)) return;
  choose(name);
  tell('manager');
  go(['overview']);
}

/** @param {Row} one */
function nameCell({ name, server }) {
  return server ? h('a', { href: pageAt(server, 'overview', name), target: '_blank', rel: 'noopener' }, name) : h('strong', {}, name === session.manager ? `${name}, shown` : name);
}

/** @param {Row} one @returns {number|null} */
function standbyCount({ figures }) {
  return figures?.replica ? figures.replica.standbys.length : null;
}

/** @param {Row} one */
function standbyCell(one) {
  const problems = replicaProblems(one.figures?.replica ?? null).map(({ textContent }) => textContent);
  const shown = standbyCount(one) ?? '';
  return problems.length ? h('span', { class: 'state dead', title: problems.join(' ') }, shown) : shown;
}

/** @param {Row} one */
function whyCell({ name, server, why }) {
  if (why !== SIGN_IN || !server) return why;
  return h('a', { href: pageAt(server, 'overview', name), target: '_blank', rel: 'noopener' }, `Sign in at ${server.name}`);
}
