/** The plugins of the extension. Whatever is shown only on demand is loaded on demand. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import clusters from './clusters';
import course from './course';
import hub from './hub';
import jobKernels from './job-kernels';
import lackingModules from './lacking-modules';
import launcher from './launcher';
import move from './move';
import outputs from './outputs';
import programs from './programs';
import runs from './runs';
import status from './status';
import tensorboard from './tensorboard';
import uploads from './uploads';
import waiting from './waiting';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  ...hub,
  ...status,
  ...tensorboard,
  ...move,
  ...outputs,
  ...programs,
  ...course,
  ...launcher,
  ...jobKernels,
  ...lackingModules,
  ...runs,
  ...waiting,
  ...clusters,
  ...uploads
];

export default plugins;
