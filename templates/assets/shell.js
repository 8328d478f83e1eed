// The side bar, collapsed to icons if this browser's user chose so: known before the first paint.
(() => {
  const CHOICE = "portal-side-bar";
  const root = document.documentElement;
  const isCollapsed = () => localStorage.getItem(CHOICE) === "collapsed";
  root.toggleAttribute("data-portal-collapsed", isCollapsed());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("portal-collapse");
    const show = () => {
      const collapsed = isCollapsed();
      root.toggleAttribute("data-portal-collapsed", collapsed);
      button?.setAttribute("aria-pressed", String(collapsed));
      for (const entry of document.querySelectorAll("#portal-side :is(.portal-entry, .find-button)")) {
        entry.title = collapsed ? entry.textContent.trim() : "";
      }
    };
    show();
    button?.addEventListener("click", () => {
      localStorage.setItem(CHOICE, isCollapsed() ? "open" : "collapsed");
      show();
    });
    addEventListener("storage", show); // another tab
  });
})();
