// Choices by name that this browser keeps for the user, the newest MOST of them.

import { facts } from "./api.js";
import { stored } from "./stored.js";

const MOST = 200;

export class Kept {
  constructor(what) {
    this.key = `portal-${what}-${facts.user}`;
  }

  get all() {
    return stored(this.key, {});
  }

  keep(name, choice) {
    const { [name]: _, ...others } = this.all;
    localStorage.setItem(this.key, JSON.stringify(Object.fromEntries([...Object.entries(others).slice(1 - MOST), [name, choice]])));
  }
}
