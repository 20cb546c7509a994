// Runs the extension's command with what VS Code's API would give it, and prints the task.
//   node planned_task.js EXTENSION SETTINGS FOLDER
'use strict';

const Module = require('node:module');

const [extension, settings, folder] = process.argv.slice(2);
const given = JSON.parse(settings);
const commands = {};
const vscode = {
  ProcessExecution: class { constructor(process, args, options) { Object.assign(this, { process, args, options }); } },
  Task: class { constructor(definition, scope, name, source, execution) { Object.assign(this, { definition, scope, name, source, execution }); } },
  TaskPanelKind: { Dedicated: 'dedicated' },
  TaskRevealKind: { Always: 'always' },
  TaskScope: { Workspace: 'workspace' },
  commands: { registerCommand: (name, run) => { commands[name] = run; } },
  tasks: { executeTask: (task) => console.log(JSON.stringify(task)) },
  window: { activeTextEditor: undefined },
  workspace: {
    getConfiguration: () => ({ get: (name, otherwise) => given[name] ?? otherwise }),
    workspaceFolders: [{ uri: { fsPath: folder } }],
  },
};
const load = Module._load;
Module._load = (name, ...rest) => {
  if (name === 'vscode') return vscode;
  if (name === 'vscode-languageclient/node') return { LanguageClient: class { start() {} } };
  return load(name, ...rest);
};

const { activate } = require(extension);
activate({ subscriptions: [] }).then(() => commands['trainwright.plan']());
