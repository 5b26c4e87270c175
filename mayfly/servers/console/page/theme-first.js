// Runs before the first paint: a page that was dark last time is not light for a moment.
try {
  const theme = localStorage.getItem('mayfly.theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing goes by the system's colours.
}
