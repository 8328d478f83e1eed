// Paths of files, as people write them.

// "~/work/train.ipynb" for a path in the home of `user`, as homes are usually mounted; any other path as it is.
export function shortPath(path, user) {
  const named = user.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return path.replace(new RegExp(`^(/[^/]+)*?/home[^/]*/([^/]+/)?${named}(?=/|$)`), "~");
}
