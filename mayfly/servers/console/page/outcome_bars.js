/** Outcomes before and after as bars of the same length for the same number. */
import { h, svg } from './dom.js';
import { count, stateKind } from './format.js';

const WIDTH = 480;
const HEIGHT = 14;
export const OUTCOMES = ['got', 'expired', 'refused', 'left'];
const KINDS = { got: 'got', refused: 'dead', left: 'waiting' };

/** @param {Record<string, number>} counts @param {number} most @param {string} label */
export function outcomeBar(counts, most, label) {
  let x = 0;
  const parts = OUTCOMES.filter((word) => counts[word]).map((word) => {
    const width = (counts[word] / most) * WIDTH;
    x += width;
    return svg('rect', { class: `outcome ${KINDS[word] ?? stateKind(word)}`, x: x - width, y: 1, width: Math.max(1, width - 1), height: HEIGHT - 2 }, svg('title', {}, `${word} ${count(counts[word])}`));
  });
  const said = `${label}: ${OUTCOMES.map((word) => `${count(counts[word] ?? 0)} ${word}`).join(', ')}`;
  return h('div', { class: 'outcome-row' }, h('span', { class: 'quiet' }, label),
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: 'img', 'aria-label': said }, parts), h('span', {}, said.slice(label.length + 2)));
}
