// Fields of resources in the forms of environments and spaces: all of the portal's table (portal/launch/fields.py),
// as portal/launch/choices/form_fields.py sends them.

export const listOf = (name) => `values-of-${name}`;
export const helpOf = (fields, name) => fields.find((field) => field.name === name).help;

// `part`: the key of the definition that has them; `usual`: values of a new definition, if not the table's.
export const resourceFields = (fields, part, usual = {}) =>
  fields.map(({ name, label, number, help, values, usual: none }) => ({
    name: `${part}.${name}`,
    label,
    help,
    kind: number ? "number" : "text",
    list: values.length ? listOf(name) : undefined,
    usual: usual[name] ?? none,
  }));

// The suggestions, by the ids of their lists.
export const valueLists = (fields) => Object.fromEntries(fields.filter(({ values }) => values.length).map(({ name, values }) => [listOf(name), values]));
