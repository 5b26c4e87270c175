/** Consumers of pipelines with the messages that they have claimed. */
import { ask } from '../api.js';
import { confirm } from '../dialog.js';
import { fill, h } from '../dom.js';
import { count, counted, moment } from '../format.js';
import { now } from '../live.js';
import { fail, say } from '../notices.js';
import { refreshing } from '../refresh.js';
import { whyNot } from '../roles.js';
import { to } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const told = h('span', { class: 'quiet', role: 'status' });
  const why = whyNot('operate');
  const table = dataTable({
    label: 'Consumers', sort: 'consumer', fills: true, key: (one) => one.consumer, open: why ? undefined : release, empty: 'No pipeline has read a queue here.',
    columns: [
      { key: 'consumer', label: 'Consumer', value: (one) => one.consumer },
      { key: 'queue', label: 'Queue', value: (one) => one.queue, cell: (one) => h('a', { href: to(['queue', one.queue]) }, one.queue) },
      { key: 'messages', label: 'Claimed', number: true, value: (one) => one.message_count, cell: (one) => count(one.message_count) },
      { key: 'since', label: 'Oldest claim', value: (one) => one.oldest_claimed_ms, cell: (one) => (one.oldest_claimed_ms === null ? '' : moment(one.oldest_claimed_ms, now())) },
      { key: 'closed', label: 'Ended', number: true, value: (one) => one.closed, cell: (one) => count(one.closed) },
      { key: 'last', label: 'Last', number: true, value: (one) => one.last, cell: (one) => count(one.last) },
      { key: 'epoch', label: 'Epoch', number: true, value: (one) => one.epoch },
    ],
  });
  main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Consumers'), told, h('span', { class: 'quiet' }, why ?? 'Enter or a click gives claimed messages back.')), table.element);

  /** @param {any} one */
  async function release(one) {
    try {
      const path = here('claims', one.consumer, 'release');
      const { message_count } = await ask('POST', path, { body: { dry_run: true } });
      const what = counted(message_count, 'message');
      const effect = [
        h('p', {}, `${what} go back to ${one.queue}, counted as a backout. The reader of ${one.consumer} is refused from now on.`),
        h('p', { class: 'quiet' }, 'A batch that it has written already is then doubled: its checkpoint tells.'),
      ];
      if (!(await confirm({ title: `Give ${what} back?`, effect, action: `Give ${what} back`, destroys: true }))) return;
      const done = await ask('POST', path, { body: {} });
      say(`${counted(done.message_count, 'message')} of ${one.consumer} given back.`);
      await again();
    } catch (error) {
      fail(error);
    }
  }

  const again = await refreshing(async () => {
    const { claims } = await ask('GET', here('claims'), { signal });
    fill(told, counted(claims.length, 'consumer'));
    table.set(claims);
  }, signal);
}
