// Answers that break off behind the proxy: preloaded by it (node --require), since http-proxy-3
// leaves their callers waiting for the rest for ever. Here their connection is cut as well.
"use strict";

const { IncomingMessage, ServerResponse } = require("node:http");

const pipe = IncomingMessage.prototype.pipe;

IncomingMessage.prototype.pipe = function (to, ...more) {
  if (to instanceof ServerResponse) {
    this.once("close", () => {
      if (!this.complete) to.destroy();
    });
  }
  return pipe.call(this, to, ...more);
};
