/** The trace of a message: one sentence, its lives as a picture, each step. */
import { ask, ofManager, Problem } from '../api.js';
import { h } from '../dom.js';
import { askAt, otherServers } from '../fleet.js';
import { bytes, duration, id as idOf, moment, state, withMoments } from '../format.js';
import { now } from '../live.js';
import { fail } from '../notices.js';
import { roleButton } from '../roles.js';
import { go, to } from '../router.js';
import { change } from '../schedule_actions.js';
import { here, session } from '../session.js';
import { picture } from '../trace_picture.js';
import { dataTable } from '../table.js';

/** How far back messages with a property were put. */
const RANGES = { 'in the last hour': 3_600_000, 'in the last day': 86_400_000, 'in the last 30 days': 2_592_000_000, 'at any time': Infinity };

/** @param {HTMLElement} main @param {{args: string[], query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { args: [wanted], query, signal }) {
  const input = /** @type {HTMLInputElement} */ (h('input', { value: wanted ?? '', 'aria-label': 'MsgId or CorrelId in hexadecimal', placeholder: 'MsgId or CorrelId in hexadecimal', class: 'id long', spellcheck: 'false', autocomplete: 'off' }));
  const form = h('form', { class: 'tools', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), input.value.trim() && go(['trace', input.value.trim()])) },
    input, h('button', { class: 'main', type: 'submit' }, 'Find'));
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Trace of a message'), form));
  if (!wanted) {
    main.append(h('p', { class: 'quiet' }, 'The MsgId that a put has returned, or a CorrelId, leads to all that is known of the message: where it is, or what became of it and why. A property leads to messages that are here.'), propertyForm(query));
    if (query.has('property')) main.append(...(await withProperty(query, signal)));
    else input.focus();
    return;
  }
  const elsewhere = await otherServers(signal);
  const [own, ...others] = await Promise.all([
    ask('GET', here('messages', wanted, 'trace'), { signal }), ...elsewhere.map((server) => traceAt(server, wanted, signal)),
  ]);
  const known = others.filter(({ is_known }) => is_known);
  const told = joined(own, known);
  if (own.is_known || !known.length) main.append(h('p', { class: 'panel sentence' }, withMoments(own.sentence)));
  main.append(...known.map(({ server, sentence }) => h('p', { class: 'panel sentence' }, h('span', { class: 'quiet' }, `At ${server}: `), withMoments(sentence))));
  main.append(...[own, ...others].flatMap(({ notes }) => notes).map((/** @type {string} */ note) => h('p', { class: 'quiet' }, note)));
  if (!told.is_known) return;
  const again = () => (main.replaceChildren(), show(main, { args: [wanted], query, signal }).catch(fail));
  if (own.is_known) main.append(acts(own, again));
  const lanes = picture(told, signal);
  main.append(
    h('section', { class: 'panel', 'aria-labelledby': 'lives' }, h('h2', { id: 'lives' }, 'Lives'), lanes),
    h('h2', {}, 'Steps'), stepTable(told), h('h2', {}, 'Each life'), lifeTable(told),
  );
  if (told.is_cut) main.append(h('p', { class: 'quiet' }, 'There is more than is told here: the latest of each place are shown.'));
}

/**
 * What can be done with a message that is here: while it is delayed it is released, rescheduled or
 * cancelled; where it lies its content is shown.
 * @param {any} told @param {() => void} done
 */
function acts(told, done) {
  const present = told.entries.filter((/** @type {any} */ entry) => entry.ended_ms === null && entry.queue_manager === session.manager);
  const delayed = present.filter((/** @type {any} */ { state: word, target }) => word === 'delayed' && target);
  const scope = { messages: delayed };
  const button = (/** @type {'release'|'reschedule'|'cancel'} */ action) =>
    roleButton('operate', { class: action === 'cancel' ? 'destroys' : null, onclick: () => change(action, scope, { now_ms: now(), done }) }, `${action[0].toUpperCase()}${action.slice(1)}…`);
  const places = [...new Map(present.map((/** @type {any} */ entry) => [entry.target && entry.state === 'delayed' ? entry.target : entry.queue, entry])).entries()];
  const links = places.filter(([queue]) => !queue.includes('@')).map(([queue, entry]) => h('a', { href: to(['messages', queue], { id: entry.msg_id }) }, `Its content on ${queue}`));
  return h('div', { class: 'tools' }, delayed.length > 0 && ['release', 'reschedule', 'cancel'].map(button), links);
}

/**
 * What another server of the fleet knows of a message. One that does not answer, or where nobody
 * has signed in, knows nothing, and a note says so.
 * @param {import('../fleet.js').Server} server @param {string} wanted @param {AbortSignal} signal
 */
async function traceAt(server, wanted, signal) {
  try {
    const { queue_managers } = await askAt(server, '/health/ready', signal);
    const [manager] = Object.keys(queue_managers);
    return { ...(await askAt(server, ofManager(manager, 'messages', wanted, 'trace'), signal)), server: server.name };
  } catch (error) {
    if (signal.aborted) throw error;
    const why = error instanceof Problem ? (error.status === 401 ? 'nobody has signed in there (Fleet)' : error.said) : 'it does not answer';
    return { server: server.name, is_known: false, notes: [`${server.name} was not asked: ${why}.`] };
  }
}

/** One trace of several servers: steps in the order of their times. @param {any} own @param {any[]} others */
function joined(own, others) {
  if (!others.length) return own;
  const every = [own, ...others].filter(({ is_known }) => is_known);
  const all = (/** @type {string} */ field) => every.flatMap((each) => each[field]);
  return {
    ...own, is_known: true, is_cut: every.some(({ is_cut }) => is_cut),
    steps: all('steps').sort((a, b) => a.at_ms - b.at_ms), entries: all('entries').sort((a, b) => a.put_ms - b.put_ms),
  };
}

/** Ask for a property. @param {URLSearchParams} query */
function propertyForm(query) {
  const field = (/** @type {string} */ name, /** @type {string} */ label) => h('label', { class: 'field' }, label, h('input', { name, value: query.get(name) ?? '', required: true, autocomplete: 'off' }));
  const range = h('select', { name: 'put', 'aria-label': 'Put' }, Object.keys(RANGES).map((word) => h('option', { selected: word === (query.get('put') ?? 'at any time') }, word)));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    go(['trace'], Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target))));
  };
  return h('form', { class: 'tools', onsubmit: submit }, field('property', 'Property'), field('value', 'is'), h('label', { class: 'field' }, 'put', range), h('button', { type: 'submit' }, 'Find messages'));
}

/** The traces of messages with a property. @param {URLSearchParams} query @param {AbortSignal} signal */
async function withProperty(query, signal) {
  const since = now() - RANGES[query.get('put') ?? 'at any time'];
  const asked = { property: query.get('property'), value: query.get('value'), limit: 100, from_ms: since > 0 ? Math.floor(since) : null };
  const told = await ask('GET', here('traces'), { query: asked, signal });
  const table = dataTable({
    label: 'Messages with this property', wraps: true, key: (trace) => trace.id, open: (trace) => go(['trace', trace.id]), empty: 'No message that is here has this property.',
    columns: [
      { key: 'id', label: 'MsgId', value: (trace) => trace.id, cell: (trace) => idOf(trace.id) },
      { key: 'trace', label: 'Trace', value: (trace) => trace.sentence, cell: (trace) => withMoments(trace.sentence) },
    ],
  });
  table.set(told.traces);
  const more = told.is_cut ? ['There are more; the latest 100 are shown.'] : [];
  return [table.element, ...[...more, ...told.notes].map((note) => h('p', { class: 'quiet' }, note))];
}

/** The queue of a step or a life: a link where it is of the queue manager that is looked at. @param {{queue: string, queue_manager: string}} one */
const placeOf = ({ queue, queue_manager }) => (queue_manager === session.manager ? h('a', { href: to(['queue', queue]) }, queue) : `${queue}@${queue_manager}`);

/** @param {any} told */
function stepTable(told) {
  const first = told.steps[0]?.at_ms;
  const table = dataTable({
    label: 'Steps', wraps: true, key: (step) => String(step.place),
    columns: [
      { key: 'at', label: 'When', value: (step) => step.at_ms, cell: (step) => moment(step.at_ms) },
      { key: 'after', label: 'After', number: true, value: (step) => step.at_ms, cell: (step) => (step.at_ms === first ? '' : `+${duration(step.at_ms - first)}`) },
      { key: 'what', label: 'What', value: (step) => step.what, cell: (step) => state(step.what) },
      { key: 'queue', label: 'Queue', value: (step) => step.queue, cell: (step) => placeOf(step) },
      { key: 'text', label: 'More', value: (step) => step.text, cell: (step) => withMoments(step.text) },
    ],
  });
  table.set(told.steps.map((/** @type {any} */ step, /** @type {number} */ place) => ({ ...step, place })));
  return table.element;
}

/** Who put it, what shortened its life, what found it expired and who ended it, as far as that is known. @param {any} entry */
const byOf = ({ user_identifier, program, capped_by, detected_by, ended_by, ended_program }) =>
  [
    user_identifier && `put by ${user_identifier}${program ? ` (${program})` : ''}`,
    capped_by && `capped by ${capped_by}`,
    detected_by && `found by ${detected_by}`,
    ended_by && `ended by ${ended_by}${ended_program ? ` (${ended_program})` : ''}`,
  ].filter(Boolean).join('; ');

/** @param {any} told */
function lifeTable(told) {
  const table = dataTable({
    label: 'Lives', wraps: true, key: (entry) => String(entry.place),
    columns: [
      { key: 'queue', label: 'Queue', value: (entry) => entry.queue, cell: (entry) => placeOf(entry) },
      { key: 'relation', label: 'Is', value: (entry) => entry.relation },
      { key: 'state', label: 'State', value: (entry) => entry.state, cell: (entry) => state(entry.state) },
      { key: 'reason', label: 'Reason', value: (entry) => entry.reason, cell: (entry) => (entry.reason ? `${entry.reason} ${entry.reason_name ?? ''}` : '') },
      { key: 'expires', label: 'Expires', value: (entry) => entry.expire_at_ms, cell: (entry) => moment(entry.expire_at_ms) },
      { key: 'by', label: 'By', value: byOf },
      { key: 'bytes', label: 'Size', number: true, value: (entry) => entry.body_bytes, cell: (entry) => bytes(entry.body_bytes) },
      { key: 'id', label: 'MsgId', value: (entry) => entry.msg_id, cell: (entry) => (entry.msg_id ? h('a', { href: to(['trace', entry.msg_id]) }, idOf(entry.msg_id)) : '') },
    ],
  });
  table.set(told.entries.map((/** @type {any} */ entry, /** @type {number} */ place) => ({ ...entry, place })));
  return table.element;
}
