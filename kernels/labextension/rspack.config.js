// Names of modules relative to this folder: the usual numbers are made of absolute paths, too, and
// a release is the same bytes wherever it is built.
module.exports = { optimization: { moduleIds: "named" } };
