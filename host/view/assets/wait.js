// A page that has nothing to show yet: it is loaded again as soon as there is something.
const LOOK = 2000;

async function look() {
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
  if (answer?.ok) location.reload();
  else setTimeout(look, LOOK);
}

setTimeout(look, LOOK);
