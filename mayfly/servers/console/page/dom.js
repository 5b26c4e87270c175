/** Elements are made here. Text becomes text nodes, so nothing that a message holds is markup. */

/**
 * Make an element. A property whose name begins with "on" is a listener; true is an empty
 * attribute; false, null and undefined are none.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...any} children strings, numbers, nodes, lists of these; null is left out
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name === 'value') made.value = value;
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...flat(children));
  return made;
}

/**
 * Make an element of SVG.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...flat(children));
  return made;
}

/** @param {any[]} children @returns {(Node|string)[]} */
function flat(children) {
  return children
    .flat(Infinity)
    .filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : String(each)));
}

/**
 * Give an element other children; without a change of its text nothing is touched, so that what
 * an operator has marked stays marked.
 * @param {Element} element
 * @param {...any} children
 */
export function fill(element, ...children) {
  const wanted = flat(children);
  if (wanted.length === 1 && typeof wanted[0] === 'string') {
    if (element.textContent !== wanted[0] || element.childElementCount) element.textContent = wanted[0];
    return;
  }
  element.replaceChildren(...wanted);
}

/** Return the element with an id, which the page has. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/**
 * A field with its label.
 * @param {string} label
 * @param {HTMLElement} input
 * @returns {HTMLElement}
 */
export function field(label, input) {
  return h('label', { class: 'field' }, label, input);
}

/** Facts by name; null facts are left out. @param {...([string, any]|null)} facts */
export function factList(...facts) {
  return h('dl', { class: 'facts' }, facts.filter(Boolean).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}
