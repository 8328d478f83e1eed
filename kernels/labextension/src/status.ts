/** The session's time, GPUs and memory in the status bar. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

const plugins: JupyterFrontEndPlugin<unknown>[] = [];

export default plugins;
