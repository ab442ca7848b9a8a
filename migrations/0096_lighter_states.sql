-- What a row costs whose state is one of three words or more: SQLite builds a table in memory for each such `IN`, of a column or of
-- the rows that an index has, whenever a row is written; comparisons need none. What is on disk stays as it is, so no table is made anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
  'status IN (''pending'', ''sending'', ''sent'', ''unknown'', ''failed'')',
  'status = ''sent'' OR status = ''pending'' OR status = ''sending'' OR status = ''unknown'' OR status = ''failed''')
 WHERE type = 'table' AND name = 'outbox';
UPDATE sqlite_schema SET sql = replace(sql,
  'status IN (''pending'', ''sending'', ''unknown'')',
  'status = ''pending'' OR status = ''sending'' OR status = ''unknown''')
 WHERE type = 'index' AND name = 'outbox_open';
UPDATE sqlite_schema SET sql = replace(sql,
  'outcome IN (''applied'', ''refused'', ''malformed'')',
  'outcome = ''applied'' OR outcome = ''refused'' OR outcome = ''malformed''')
 WHERE type = 'table' AND name = 'receipts';
UPDATE sqlite_schema SET sql = replace(sql,
  'kind IN (''image'', ''video'', ''audio'', ''voice'', ''document'')',
  'kind = ''image'' OR kind = ''document'' OR kind = ''voice'' OR kind = ''audio'' OR kind = ''video''')
 WHERE type = 'table' AND name = 'attachments';
UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
  'schedule_type IN (''cron'', ''interval'', ''once'')',
  'schedule_type = ''cron'' OR schedule_type = ''interval'' OR schedule_type = ''once'''),
  'catch_up IN (''latest'', ''all'', ''skip'')',
  'catch_up = ''latest'' OR catch_up = ''all'' OR catch_up = ''skip'''),
  'status IN (''active'', ''paused'', ''completed'')',
  'status = ''active'' OR status = ''paused'' OR status = ''completed''')
 WHERE type = 'table' AND name = 'tasks';
UPDATE sqlite_schema SET sql = replace(sql,
  'verdict IN (''wake'', ''context'', ''ignore'', ''held'')',
  'verdict = ''wake'' OR verdict = ''context'' OR verdict = ''ignore'' OR verdict = ''held''')
 WHERE type = 'table' AND name = 'inbox';
UPDATE sqlite_schema SET sql = replace(sql,
  'state IN (''handed'', ''claimed'', ''done'', ''returned'', ''failed'')',
  'state = ''handed'' OR state = ''claimed'' OR state = ''done'' OR state = ''returned'' OR state = ''failed''')
 WHERE type = 'table' AND name = 'batches';
UPDATE sqlite_schema SET sql = replace(sql,
  'state IN (''handed'', ''claimed'', ''returned'')',
  'state = ''handed'' OR state = ''claimed'' OR state = ''returned''')
 WHERE type = 'index' AND name = 'batches_open';
UPDATE sqlite_schema SET sql = replace(replace(replace(replace(replace(sql,
  'kind IN (''message'', ''task'', ''heartbeat'')',
  'kind = ''message'' OR kind = ''task'' OR kind = ''heartbeat'''),
  '(status IN (''queued'', ''running'', ''succeeded'', ''failed'', ''cancelled''))',
  '(status = ''running'' OR status = ''succeeded'' OR status = ''queued'' OR status = ''failed'' OR status = ''cancelled'')'),
  '(status IN (''succeeded'', ''failed'', ''cancelled''))',
  '(status = ''succeeded'' OR status = ''failed'' OR status = ''cancelled'')'),
  'wake IN (''first'', ''resume'', ''fresh'')',
  'wake = ''resume'' OR wake = ''first'' OR wake = ''fresh'''),
  'fresh_why IN (''not_resumed'', ''crash_loop'', ''silent'', ''unfinished'')',
  'fresh_why = ''not_resumed'' OR fresh_why = ''crash_loop'' OR fresh_why = ''silent'' OR fresh_why = ''unfinished''')
 WHERE type = 'table' AND name = 'runs';
UPDATE sqlite_schema SET sql = replace(sql,
  'fresh_why IN (''not_resumed'', ''crash_loop'', ''silent'', ''unfinished'')',
  'fresh_why = ''not_resumed'' OR fresh_why = ''crash_loop'' OR fresh_why = ''silent'' OR fresh_why = ''unfinished''')
 WHERE type = 'table' AND name = 'sessions';
PRAGMA writable_schema = RESET;
-- A change of tables makes open connections read the schema anew.
CREATE TABLE read_anew (n INTEGER) STRICT;
DROP TABLE read_anew;
