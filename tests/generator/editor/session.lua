-- What a person does in Neovim, headless: opens a job, waits for findings, asks, types, and applies
-- a remedy. Each answer is a line of JSON on standard output; nothing is saved.
local root, path, command = _G.arg_root, _G.arg_path, _G.arg_command

local function say(name, value)
  io.stdout:write(vim.json.encode({ name = name, value = value }) .. '\n')
end

local function wait(what, done)
  if not vim.wait(60000, done, 20) then
    say('timeout', what)
    vim.cmd('cquit 1')
  end
end

vim.cmd('edit ' .. path)
local buffer = vim.api.nvim_get_current_buf()
local client = vim.lsp.start_client({ name = 'trainwright', cmd = command, root_dir = root })
vim.lsp.buf_attach_client(buffer, client)
wait('a client', function()
  local known = vim.lsp.get_client_by_id(client)
  return known ~= nil and known.initialized
end)

local function lines()
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(buffer)) do
    table.insert(found, { one.lnum, one.code, one.source })
  end
  return found
end

local function request(method, row, column)
  local params = vim.lsp.util.make_position_params()
  params.position = { line = row - 1, character = column }
  local answers = vim.lsp.buf_request_sync(buffer, method, params, 60000)
  return answers and answers[client] and answers[client].result
end

wait('findings', function() return #lines() > 0 end)
say('opened', lines())
say('hover', request('textDocument/hover', 10, 1).contents.value)
say('definition', request('textDocument/definition', 10, 7)[1].uri)

-- A line that breaks the YAML, and the remedy that the server offers.
vim.api.nvim_buf_set_lines(buffer, 9, 10, false, { 'pool:h100' })
wait('the broken line', function() return lines()[1] and lines()[1][2] == 'TW001' end)
say('broken', lines())
local range = vim.lsp.util.make_given_range_params({ 10, 0 }, { 10, 0 })
range.context = { diagnostics = {} }
local offered = vim.lsp.buf_request_sync(buffer, 'textDocument/codeAction', range, 60000)[client].result
vim.lsp.util.apply_workspace_edit(offered[1].edit, 'utf-16')
say('remedied', vim.api.nvim_buf_get_lines(buffer, 9, 10, false)[1])
wait('no syntax error', function() return lines()[1] and lines()[1][2] ~= 'TW001' end)

-- Completion as `i_CTRL-X_CTRL-O` asks for it.
vim.api.nvim_buf_set_lines(buffer, 9, 10, false, { 'pool: ' })
local items = request('textDocument/completion', 10, 6).items
local labels = {}
for _, item in ipairs(items) do table.insert(labels, item.label) end
say('completion', labels)

vim.lsp.stop_client(client)
wait('the end', function() return #vim.lsp.get_active_clients() == 0 end)
vim.cmd('qall!')
