// Runs before the first paint, so that a page never flashes in the wrong theme. A file of its own because the
// page's security policy allows no inline scripts.
(() => {
  let choice = "system";
  try {
    choice = localStorage.getItem("toolrack.theme") ?? "system";
  } catch {
    // A browser that keeps nothing follows the system.
  }
  const dark =
    choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
