/** A table for many rows: only those that are seen are in the page. Sorting, keys, choosing; cards on a phone. */
import { fill, h } from './dom.js';
import { hear } from './signals.js';

const ROW = 28;
const HEAD = 32;
const AHEAD = 12;
const PAGE = 16;
/** On a phone rows are cards of any height, and so many are in the page until the last one is seen. */
const CARDS = 40;
const SHORT = 7;
const phone = matchMedia('(max-width: 599px)');
/** What was chosen and looked at in tables that keep it, by their names. @type {Map<string, {chosen: Set<string>, active: string}>} */
const kept = new Map();

hear('signedout', () => kept.clear());
hear('manager', () => kept.clear());

/**
 * @template T
 * @typedef {{key: string, label: string, title?: string, number?: boolean, value: (row: T) => any,
 *   cell?: (row: T) => any}} Column `value` sorts and is shown; `cell` is shown instead
 */

/**
 * @template T
 * @param {{label: string, columns: Column<T>[], key: (row: T) => string, open?: (row: T) => void,
 *   sort?: string, chooses?: (count: number) => void, empty?: string, fills?: boolean, wraps?: boolean, keeps?: string}} asked
 *   `sort` is the key of a column, with "-" before it downwards; without it rows stay as they come;
 *   `chooses` is called when rows are chosen; a table that `wraps` has few rows, of any height; by
 *   the name `keeps` the rows that are chosen, and the one that was opened, are so again after a
 *   look at another page
 */
export function dataTable(asked) {
  const { columns, key } = asked;
  /** @type {T[]} */ let rows = [];
  let [sortKey, isDown] = [asked.sort?.replace(/^-/, '') ?? '', asked.sort?.startsWith('-') ?? false];
  let active = 0;
  let before = asked.keeps === undefined ? undefined : kept.get(asked.keeps);
  /** @type {Map<string, {row: T, element: HTMLElement}>} */ let drawn = new Map();
  /** @type {Map<string, T>} */ const chosen = new Map();

  let cards = CARDS;

  const body = h('tbody', { role: 'rowgroup' });
  const heads = columns.map((column) => headOf(column));
  const all = h('input', { type: 'checkbox', 'aria-label': 'Choose all rows', onchange: chooseAll });
  const headOfAll = h('th', { scope: 'col', role: 'columnheader' });
  const allRows = h('label', { class: 'field' }, 'All rows');
  const table = h(
    'table',
    { role: 'grid', 'aria-label': asked.label, 'aria-multiselectable': asked.chooses ? 'true' : null },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, asked.chooses && headOfAll, heads)),
    body,
  );
  const end = h('div', { class: 'end-of-cards' });
  const sizer = h('div', {}, table, end);
  const empty = h('p', { class: 'empty' }, asked.empty ?? 'Nothing here.');
  const element = h('div', { class: `table${asked.fills ? ' fills' : ''}${asked.wraps ? ' wraps' : ''}`, onscroll: draw, onkeydown: keys }, cardHead(), sizer, empty);
  new ResizeObserver(draw).observe(element);
  new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && phone.matches && cards < rows.length && (cards += CARDS, draw()), { rootMargin: '400px' }).observe(end);

  /** What the heads of a table do, above its cards: the order of rows, and the choice of all. */
  function cardHead() {
    const columnsToSort = asked.sort === undefined ? [] : columns;
    const options = columnsToSort.flatMap(({ key: name, label }) => [['', '↑'], ['-', '↓']].map(([sign, arrow]) => h('option', { value: sign + name, selected: sign + name === asked.sort }, `${label} ${arrow}`)));
    const order = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': `Order of ${asked.label}`, onchange: () => {
      [sortKey, isDown] = [order.value.replace(/^-/, ''), order.value.startsWith('-')];
      arrange();
      draw();
    } }, asked.sort === '' && h('option', { selected: true, disabled: true }, 'as they came'), options));
    return h('div', { class: 'card-head' }, options.length > 2 && order, asked.chooses && allRows);
  }

  /** The box for all rows stands in its head, or above the cards. */
  function placeAll() {
    const place = phone.matches ? allRows : headOfAll;
    if (all.parentElement !== place) place.prepend(all);
  }

  /** @param {Column<T>} column */
  function headOf(column) {
    const sortable = asked.sort !== undefined;
    const label = sortable ? h('button', { type: 'button', onclick: () => sortBy(column) }, column.label) : column.label;
    return h('th', { scope: 'col', role: 'columnheader', class: column.number ? 'number' : null, title: column.title }, label);
  }

  /** @param {Column<T>} column */
  function sortBy(column) {
    isDown = sortKey === column.key ? !isDown : Boolean(column.number);
    sortKey = column.key;
    arrange();
    draw();
  }

  function arrange() {
    const column = columns.find((each) => each.key === sortKey);
    heads.forEach((head, index) => {
      if (columns[index] === column) head.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    if (!column) return;
    const sign = isDown ? -1 : 1;
    const valued = rows.map((row) => /** @type {const} */ ([column.value(row), row]));
    // Equal ones are in the order of their keys, so that rows do not change places by themselves.
    valued.sort(([a, one], [b, other]) => (a === b ? (key(one) < key(other) ? -1 : 1) : a === null ? 1 : b === null ? -1 : a < b ? -sign : sign));
    rows = valued.map(([, row]) => row);
  }

  function draw() {
    placeAll();
    const isWhole = asked.wraps || phone.matches;
    const first = isWhole ? 0 : Math.max(0, Math.floor(element.scrollTop / ROW) - AHEAD);
    const seen = phone.matches ? cards : Math.ceil((element.scrollTop + element.clientHeight) / ROW) + AHEAD;
    const last = asked.wraps ? rows.length : Math.min(rows.length, seen);
    const wanted = new Map();
    const order = [];
    for (let index = first; index < last; index += 1) {
      const row = rows[index];
      const name = key(row);
      const known = drawn.get(name);
      const made = known ?? { row, element: rowOf(name) };
      if (!known || known.row !== row) fillRow(made.element, row);
      made.row = row;
      made.element.setAttribute('aria-rowindex', String(index + 2));
      made.element.tabIndex = index === active ? 0 : -1;
      wanted.set(name, made);
      order.push(made.element);
    }
    if (order.length !== body.children.length || order.some((each, index) => body.children[index] !== each)) {
      const focused = document.activeElement;
      body.replaceChildren(...order);
      if (focused instanceof HTMLElement && body.contains(focused)) focused.focus({ preventScroll: true });
    }
    drawn = wanted;
    table.style.marginTop = `${first * ROW}px`;
    table.setAttribute('aria-rowcount', String(rows.length + 1));
    sizer.style.height = isWhole ? '' : `${HEAD + rows.length * ROW}px`;
    sizer.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
  }

  /** @param {string} name */
  function rowOf(name) {
    const box = asked.chooses && h('td', { role: 'gridcell', class: 'box' }, h('input', { type: 'checkbox', tabindex: '-1', 'aria-label': 'Choose', onchange: () => toggle(name) }));
    const cells = columns.map((column) => h('td', { role: 'gridcell', class: column.number ? 'number' : null, 'data-label': column.label }));
    const made = h('tr', { role: 'row', class: asked.open ? 'opens' : null, 'data-key': name, onclick: pick }, box, cells);
    if (asked.chooses) show(made, chosen.has(name));
    return made;
  }

  /** @param {HTMLElement} made @param {T} row */
  function fillRow(made, row) {
    const from = asked.chooses ? 1 : 0;
    columns.forEach((column, index) => {
      const cell = /** @type {HTMLElement} */ (made.children[index + from]);
      const shown = column.cell ? column.cell(row) : (column.value(row) ?? '');
      fill(cell, shown);
      if (!column.number) return;
      const text = cell.textContent ?? '';
      cell.classList.toggle('zero', text === '0');
      // Two short numbers stand in a line of a card.
      cell.classList.toggle('long', text.length > SHORT);
    });
  }

  /** @param {HTMLElement} made @param {boolean} isChosen */
  function show(made, isChosen) {
    made.setAttribute('aria-selected', String(isChosen));
    const box = made.querySelector('input');
    if (box) box.checked = isChosen;
  }

  /** @param {string} name */
  function toggle(name) {
    const row = rows.find((each) => key(each) === name);
    if (!row) return;
    if (!chosen.delete(name)) chosen.set(name, row);
    const made = drawn.get(name)?.element;
    if (made) show(made, chosen.has(name));
    tellChosen();
  }

  function chooseAll() {
    const every = chosen.size === rows.length;
    chosen.clear();
    if (!every) for (const row of rows) chosen.set(key(row), row);
    for (const [name, each] of drawn) show(each.element, chosen.has(name));
    tellChosen();
  }

  function tellChosen() {
    const box = /** @type {HTMLInputElement} */ (all);
    box.checked = chosen.size > 0 && chosen.size === rows.length;
    box.indeterminate = chosen.size > 0 && chosen.size < rows.length;
    keepPlace();
    asked.chooses?.(chosen.size);
  }

  function keepPlace() {
    if (asked.keeps !== undefined && rows.length) kept.set(asked.keeps, { chosen: new Set(chosen.keys()), active: key(rows[active]) });
  }

  /** Choose again what was chosen before a look at another page. */
  function takeUp() {
    if (!before || !rows.length) return;
    for (const row of rows) if (before.chosen.has(key(row))) chosen.set(key(row), row);
    active = Math.max(0, rows.findIndex((row) => key(row) === before?.active));
    before = undefined;
  }

  /** @param {MouseEvent} event */
  function pick(event) {
    if (/** @type {HTMLElement} */ (event.target).closest('a, button, input')) return;
    const name = /** @type {HTMLElement} */ (event.currentTarget).dataset.key;
    activate(rows.findIndex((row) => key(row) === name));
    if (asked.open && !getSelection()?.toString()) asked.open(rows[active]);
  }

  /** Give a row the focus, and show it. @param {number} index */
  function activate(index) {
    if (!rows.length) return;
    active = Math.max(0, Math.min(rows.length - 1, index));
    if (phone.matches) {
      while (cards <= active) cards += CARDS;
      draw();
      drawn.get(key(rows[active]))?.element.focus();
      return;
    }
    const [top, bottom] = [active * ROW, active * ROW + ROW + HEAD];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
    draw();
    keepPlace();
    drawn.get(key(rows[active]))?.element.focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  function keys(event) {
    if (!(event.target instanceof HTMLTableRowElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity };
    if (event.key in steps) activate(active + steps[event.key]);
    else if (event.key === 'Enter' && asked.open) asked.open(rows[active]);
    else if (event.key === ' ' && asked.chooses) toggle(key(rows[active]));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return {
    element,
    /** Show other rows; those of the same key stay chosen. @param {T[]} found */
    set(found) {
      rows = [...found];
      const names = new Set(rows.map(key));
      for (const name of chosen.keys()) if (!names.has(name)) chosen.delete(name);
      active = Math.min(active, Math.max(0, rows.length - 1));
      arrange();
      takeUp();
      draw();
      for (const [name, each] of drawn) if (asked.chooses) show(each.element, chosen.has(name));
      if (asked.chooses) tellChosen();
    },
    /** The rows that are chosen. @returns {T[]} */
    chosen: () => [...chosen.values()],
    /** Give the first row the focus. */
    focus: () => activate(active),
  };
}
