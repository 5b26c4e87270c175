/** Channels: how they stand with their partners, and their operations. */
import { ask } from '../api.js';
import { define } from '../definition.js';
import { confirm, open } from '../dialog.js';
import { factList, fill, h } from '../dom.js';
import { bytes, count, counted, moment, state } from '../format.js';
import { now } from '../live.js';
import { fail, say } from '../notices.js';
import { refreshing } from '../refresh.js';
import { roleButton, whyNot } from '../roles.js';
import { go, to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** Kinds of states by the words of channels. */
const KINDS = { RUNNING: 'available', STARTING: 'delayed', RETRYING: 'delayed', PAUSED: 'delayed', STOPPING: 'delayed', STOPPED: 'dead_lettered', INACTIVE: 'got' };
const shown = (/** @type {string} */ word) => state(KINDS[word] ?? 'got', word.toLowerCase());
const standing = (/** @type {any} */ channel) => (channel.is_stopped ? 'STOPPED' : channel.partners[0]?.status ?? (channel.client_count ? 'RUNNING' : 'INACTIVE'));

/** @param {HTMLElement} main @param {{args: string[], signal: AbortSignal}} place */
export async function show(main, { args: [name], signal }) {
  await (name ? showOne(main, name, signal) : showAll(main, signal));
}

/** @param {HTMLElement} main @param {AbortSignal} signal */
async function showAll(main, signal) {
  const told = h('span', { class: 'quiet', role: 'status' });
  const sum = (/** @type {any} */ { partners }, /** @type {string} */ field) => partners.reduce((total, one) => total + one[field], 0);
  const table = dataTable({
    label: 'Channels', sort: 'name', fills: true, key: (channel) => channel.name, open: (channel) => go(['channels', channel.name]), empty: 'No channel is defined.',
    columns: [
      { key: 'name', label: 'Channel', value: (channel) => channel.name },
      { key: 'type', label: 'Type', value: (channel) => channel.type },
      { key: 'status', label: 'Status', value: standing, cell: (channel) => shown(standing(channel)) },
      { key: 'partner', label: 'Partner', value: (channel) => channel.partners.map(({ partner }) => partner).filter(Boolean).join(', ') },
      { key: 'xmitq', label: 'Transmission queue', value: (channel) => channel.transmission_queue },
      { key: 'messages', label: 'Messages', number: true, value: (channel) => sum(channel, 'message_count'), cell: (channel) => count(sum(channel, 'message_count')) },
      { key: 'why', label: 'Why', value: (channel) => channel.partners.map(({ failure }) => failure).filter(Boolean).join('; ') },
      { key: 'doubt', label: 'In doubt', value: (channel) => (channel.partners.some(({ is_in_doubt }) => is_in_doubt) ? 'yes' : '') },
      { key: 'clients', label: 'Clients', number: true, value: (channel) => channel.client_count, cell: (channel) => count(channel.client_count) },
    ],
  });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Channels'), told, h('div', { class: 'tools' }, roleButton('administer', { onclick: () => define('channel').catch(fail) }, 'Define…'))), table.element);
  await refreshing(async () => {
    const { channels } = await ask('GET', here('channels'), { signal });
    fill(told, counted(channels.length, 'channel'));
    table.set(channels);
  }, signal);
}

/** @param {HTMLElement} main @param {string} name @param {AbortSignal} signal */
async function showOne(main, name, signal) {
  const path = (/** @type {string[]} */ ...more) => here('channels', name, ...more);
  const facts = h('div', { class: 'panels' });
  const why = whyNot('operate');
  const act = async (/** @type {string} */ action, /** @type {object} */ body, /** @type {string} */ text) => {
    try {
      await ask('POST', path(action), { body });
      say(text);
    } catch (error) {
      fail(error);
    }
    again();
  };
  const stop = async () => {
    const effect = 'It ends behind the work under way, and stays stopped until somebody starts it.';
    if (await confirm({ title: `Stop ${name}?`, effect, action: 'Stop', destroys: true })) await act('stop', {}, `${name} is stopped.`);
  };
  const resolve = async () => {
    const way = await open(`Settle the batch in doubt of ${name}?`, (close) => [
      h('p', {}, 'A batch that is settled wrongly is lost or doubled. When LSTLUWID of the partner is CURLUWID here, the batch has arrived: commit.'),
      h('div', { class: 'tools' }, h('button', { autofocus: true, onclick: () => close(null) }, 'Leave it'),
        h('button', { class: 'destroys', onclick: () => close('backout') }, 'Back out: send it again'), h('button', { class: 'destroys', onclick: () => close('commit') }, 'Commit: it is there')),
    ]);
    if (way) await act('resolve', { action: way }, `The batch of ${name} is settled: ${way}.`);
  };
  const start = roleButton('operate', { class: 'main', onclick: () => act('start', undefined, `${name} is started.`) }, 'Start');
  const end = roleButton('operate', { class: 'destroys', onclick: stop }, 'Stop…');
  const settle = roleButton('operate', { class: 'destroys', onclick: resolve }, 'Resolve…');
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, name), h('a', { href: to(['channels']) }, 'All channels'), h('a', { href: to(['objects', 'channel', name]) }, 'Its attributes'),
      h('div', { class: 'tools' }, why && h('span', { class: 'quiet' }, why), start, end, settle)),
    facts,
  );
  const again = await refreshing(async () => {
    const channel = await ask('GET', path(), { signal });
    settle.hidden = !channel.partners.some(({ is_in_doubt }) => is_in_doubt);
    fill(facts, general(channel), channel.partners.map(partnerPanel));
  }, signal);
}

/** @param {any} channel */
const general = (channel) => h('section', { class: 'panel', 'aria-label': 'Channel' }, factList(
  ['Type', channel.type], ['Status', shown(standing(channel))],
  channel.description && ['Description', channel.description],
  channel.transmission_queue && ['Transmission queue', h('a', { href: to(['queue', channel.transmission_queue]) }, channel.transmission_queue)],
  channel.type === 'SVRCONN' && ['Clients', h('a', { href: to(['connections'], { find: channel.name }) }, count(channel.client_count))]));

/** @param {any} one */
const partnerPanel = (one) => h('section', { class: 'panel', 'aria-label': `Partner ${one.partner}` }, h('h2', {}, one.partner || one.connection || 'Partner'), factList(
  ['Status', shown(one.status)], one.failure && ['Failure', h('span', { class: 'bad' }, one.failure)],
  ['Address', one.connection || 'the same process'],
  ['Messages', `${count(one.message_count)} in ${counted(one.batch_count, 'batch').replace('batchs', 'batches')}`],
  ['Last message', one.last_message_ms === null ? 'none' : moment(one.last_message_ms, now())],
  ['Sent, received', `${bytes(one.sent_bytes)}, ${bytes(one.received_bytes)}`],
  ['Sequence', one.is_in_doubt ? `${one.sequence}, in doubt up to ${one.current_sequence}` : String(one.sequence)],
  one.is_in_doubt && ['CURLUWID', h('code', {}, one.current_luw)],
  ['Retries left', `${count(one.short_retries_left)} short, ${count(one.long_retries_left)} long`]));
