/** Lives that have ended, as rows of a table. */
import { h } from './dom.js';
import { bytes, duration, id, moment, state } from './format.js';
import { go, to } from './router.js';
import { dataTable } from './table.js';

/** Why and by whom a life has ended, as far as that is known. @param {any} life */
const whyOf = (life) =>
  [
    life.reason && `${life.reason} ${life.reason_name ?? ''}`,
    life.capped_by && `capped by ${life.capped_by}`,
    life.detected_by && `found by ${life.detected_by}`,
    life.ended_by && `of ${life.ended_by}${life.ended_program ? ` (${life.ended_program})` : ''}`,
  ].filter(Boolean).join(', ');

/** How long after its deadline an expired message was found. @param {any} life */
const lateOf = ({ outcome, ended_ms, expire_at_ms }) => (outcome === 'expired' && expire_at_ms !== null ? ended_ms - expire_at_ms : null);

/**
 * A table of lives; a row leads to the trace.
 * @param {{label: string, empty: string, fills?: boolean, without?: string}} asked `without` is the key of a column
 */
export function livesTable({ without, ...asked }) {
  const columns = [
    { key: 'ended', label: 'Ended', value: (life) => life.ended_ms, cell: (life) => moment(life.ended_ms) },
    { key: 'outcome', label: 'Outcome', value: (life) => life.outcome, cell: (life) => state(life.outcome) },
    { key: 'queue', label: 'Queue', value: (life) => life.queue, cell: (life) => h('a', { href: to(['queue', life.queue]) }, life.queue) },
    { key: 'lived', label: 'Lived', number: true, title: 'From its put to its end', value: (life) => life.ended_ms - life.put_ms, cell: (life) => duration(life.ended_ms - life.put_ms) },
    { key: 'late', label: 'Found after', number: true, title: 'From its deadline to its end', value: lateOf, cell: (life) => (lateOf(life) === null ? '' : duration(lateOf(life))) },
    { key: 'sender', label: 'Sender', value: (life) => life.user_identifier },
    { key: 'id', label: 'MsgId', value: (life) => life.msg_id, cell: (life) => id(life.msg_id) },
    { key: 'bytes', label: 'Size', number: true, value: (life) => life.body_bytes, cell: (life) => bytes(life.body_bytes) },
    { key: 'why', label: 'Why', value: whyOf, cell: (life) => h('span', { title: whyOf(life) }, whyOf(life)) },
  ];
  return dataTable({ ...asked, columns: columns.filter(({ key }) => key !== without), key: (life) => String(life.position), open: (life) => go(['trace', life.msg_id]) });
}
