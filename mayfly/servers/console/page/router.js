/** Pages by the part of the address behind #: "#/queues/ORDERS?from_ms=1". */

/** @typedef {{page: string, args: string[], query: URLSearchParams}} Place */

/** @param {string} hash @returns {Place} */
export function placeOf(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?');
  const [page, ...args] = path.split('/').map(decodeURIComponent);
  return { page, args, query: new URLSearchParams(search) };
}

/**
 * The address of a page.
 * @param {string[]} parts page and arguments
 * @param {Record<string, any>} [query]
 */
export function to(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

/** Go to a page. @param {string[]} parts @param {Record<string, any>} [query] */
export function go(parts, query) {
  location.hash = to(parts, query);
}

/** Change the query of this page without going anywhere. @param {string[]} parts @param {Record<string, any>} query */
export function keep(parts, query) {
  history.replaceState(null, '', to(parts, query));
}
