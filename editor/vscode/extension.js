// Starts `trainwright editor lsp` for the folders that have environments/ in them, and runs
// `trainwright plan` as a task. Everything else is the server's; see docs/editors.md.
'use strict';

const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

/** @type {LanguageClient | undefined} */
let client;

/** The command and its first arguments. @returns {string[]} */
function command() {
  return vscode.workspace.getConfiguration('trainwright').get('command', ['trainwright']);
}

/** The branch that is planned against; empty for the command's own. @returns {string} */
function against() {
  return vscode.workspace.getConfiguration('trainwright').get('against', '');
}

/** The folder of the file that is shown, or the first. */
function folder() {
  const shown = vscode.window.activeTextEditor?.document.uri;
  const around = shown && vscode.workspace.getWorkspaceFolder(shown);
  return around ?? vscode.workspace.workspaceFolders?.[0];
}

async function start() {
  const [executable, ...first] = command();
  const options = { cwd: vscode.workspace.workspaceFolders?.[0]?.uri.fsPath };
  const server = { command: executable, args: [...first, 'editor', 'lsp', '--stdio'], options };
  const documents = [{ scheme: 'file', language: 'yaml', pattern: '**/environments/**' }];
  client = new LanguageClient('trainwright', 'Trainwright', server, { documentSelector: documents });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `${executable} cannot be started: ${error instanceof Error ? error.message : error}. ` +
        'Install it with pip install trainwright-editor, or set trainwright.command.',
    );
  }
}

async function stop() {
  await client?.stop();
  client = undefined;
}

/** Runs the plan in a terminal that stays after it has ended. */
function plan() {
  const [executable, ...first] = command();
  const branch = against();
  const plan = ['plan', ...(branch ? ['--against', branch] : [])];
  const where = folder();
  const task = new vscode.Task(
    { type: 'trainwright', arguments: plan },
    where ?? vscode.TaskScope.Workspace,
    'plan',
    'trainwright',
    new vscode.ProcessExecution(executable, [...first, ...plan], { cwd: where?.uri.fsPath }),
    [],
  );
  task.presentationOptions = {
    reveal: vscode.TaskRevealKind.Always,
    panel: vscode.TaskPanelKind.Dedicated,
    clear: true,
    close: false,
  };
  return vscode.tasks.executeTask(task);
}

async function restart() {
  await stop();
  await start();
}

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand('trainwright.plan', plan),
    vscode.commands.registerCommand('trainwright.restart', restart),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
