// Copies the schemas into the package: an extension has no files from outside of its folder.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const from = path.join(__dirname, '..', '..', 'schemas');
const to = path.join(__dirname, 'schemas');
fs.mkdirSync(to, { recursive: true });
for (const name of fs.readdirSync(from).filter((file) => file.endsWith('.schema.json'))) {
  fs.copyFileSync(path.join(from, name), path.join(to, name));
}
