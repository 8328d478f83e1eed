// Which element a selector finds, and what it has, stands in the page's template: it is not checked.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
interface Element {
  closest(selectors: string): any;
}
interface Window {
  portalFinder: any;
  Plot: any;
  d3: any;
  define: any;
}
interface MapConstructor {
  groupBy<K, V>(items: Iterable<V>, keyOf: (item: V) => K): Map<K, V[]>;
}
declare module "*/uPlot.esm.js" {
  const uPlot: any;
  export default uPlot;
}
declare module "*/d3.min.js";
declare module "*/plot.umd.min.js";
