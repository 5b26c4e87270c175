/** The replica of a queue manager as its owner sees it: lease, epoch, and the standbys that follow. */
import { factList, fill, h } from './dom.js';
import { count, counted, duration } from './format.js';
import { dataTable } from './table.js';

/**
 * @typedef {{name: string, addresses: Record<string, string>, lag_rows: number, lag_ms: number, seen_ms: number}} Standby
 * @typedef {{role: string, epoch: number, last_row: number, lease_ms: number, lease_age_ms: number, standbys: Standby[]}} Replica
 */

/** A standby that follows is seen each second; the alerts of deploy/prometheus say the same. */
const LAG_MS = 5_000;
const LAG_ROWS = 5_000;
const COLUMNS = [
  { key: 'name', label: 'Standby', value: (/** @type {Standby} */ { name }) => name },
  { key: 'address', label: 'Address', title: 'Where it listens', value: (/** @type {Standby} */ one) => addressOf(one) },
  { key: 'rows', label: 'Rows behind', number: true, title: 'Rows of the log that it lacks', value: (/** @type {Standby} */ one) => one.lag_rows, cell: (/** @type {Standby} */ one) => count(one.lag_rows) },
  { key: 'lag', label: 'Time behind', number: true, title: 'It may lack what was committed in this time', value: (/** @type {Standby} */ one) => one.lag_ms, cell: (/** @type {Standby} */ one) => duration(one.lag_ms) },
  { key: 'seen', label: 'Seen', number: true, value: (/** @type {Standby} */ one) => one.seen_ms, cell: (/** @type {Standby} */ one) => `${duration(one.seen_ms)} ago` },
];

/** A panel, which is hidden for a queue manager without a replica. */
export function replicaPanel() {
  const facts = h('div');
  const table = dataTable({ label: 'Standbys', columns: COLUMNS, key: (one) => one.name, wraps: true, empty: 'No standby follows.' });
  const element = h('section', { class: 'stack', 'aria-labelledby': 'replica', hidden: true }, h('h2', { id: 'replica' }, 'Replica'), h('div', { class: 'panel' }, facts), table.element);
  return {
    element,
    set(/** @type {Replica|null} */ replica) {
      element.hidden = !replica;
      if (!replica) return;
      fill(facts, factList(
        ['Role', `${replica.role}, ${replica.standbys.length ? counted(replica.standbys.length, 'standby') : 'no standby'}`],
        ['Epoch', count(replica.epoch)],
        ['Lease', `renewed ${duration(replica.lease_age_ms)} ago, of ${duration(replica.lease_ms)}`],
        ['Log', `row ${count(replica.last_row)}`],
      ));
      table.set(replica.standbys);
    },
  };
}

/** What somebody should look at. @param {Replica|null} replica @returns {HTMLElement[]} */
export function replicaProblems(replica) {
  if (!replica) return [];
  const behind = replica.standbys.filter(({ lag_ms, lag_rows }) => lag_ms > LAG_MS || lag_rows > LAG_ROWS);
  return [
    ...(replica.standbys.length ? [] : [h('li', { class: 'warn' }, 'No standby follows: nobody takes over when this server is lost.')]),
    ...behind.map(({ name, lag_rows, lag_ms }) => h('li', { class: 'warn' }, `Standby ${name} is ${counted(lag_rows, 'row')} and ${duration(lag_ms)} behind.`)),
    ...(2 * replica.lease_age_ms > replica.lease_ms ? [h('li', { class: 'bad' }, `The lease was renewed ${duration(replica.lease_age_ms)} ago, and lasts ${duration(replica.lease_ms)}: the database is slow or away.`)] : []),
  ];
}

/** Where an operator looks at it: by HTTP, else where it listens first. @param {Standby} one */
const addressOf = ({ addresses }) => addresses.http ?? addresses.mq ?? Object.values(addresses)[0] ?? '';
