// Starts `trainwright editor lsp` for the folders that have environments/ in them. Everything else is the
// server's; see docs/editors.md.
'use strict';

const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function settings() {
  return vscode.workspace.getConfiguration('trainwright');
}

async function start() {
  const [command, ...first] = settings().get('command');
  const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command, args: [...first, 'editor', 'lsp', '--stdio'], options: { cwd } };
  const documents = [{ scheme: 'file', language: 'yaml', pattern: '**/environments/**' }];
  client = new LanguageClient('trainwright', 'Trainwright', server, { documentSelector: documents });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `${command} cannot be started: ${error.message}. Install it with ` +
        'pip install trainwright-editor, or set trainwright.command.',
    );
  }
}

async function stop() {
  await client?.stop();
  client = undefined;
}

function plan() {
  const [shellPath, ...first] = settings().get('command');
  const shellArgs = [...first, 'plan', '--against', settings().get('against')];
  const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  vscode.window.createTerminal({ name: 'trainwright plan', shellPath, shellArgs, cwd }).show();
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async (context) => {
  context.subscriptions.push(
    vscode.commands.registerCommand('trainwright.plan', plan),
    vscode.commands.registerCommand('trainwright.restart', restart),
  );
  await start();
};

exports.deactivate = stop;
