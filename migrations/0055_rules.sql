-- A group has other rules about hosts outside: the group was changed.
CREATE TRIGGER events_rule_new AFTER INSERT ON egress_rules BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.group_folder, new.group_folder);
END;
CREATE TRIGGER events_rule AFTER UPDATE OF verdict ON egress_rules WHEN new.verdict <> old.verdict BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.group_folder, new.group_folder);
END;
CREATE TRIGGER events_rule_gone AFTER DELETE ON egress_rules BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', old.group_folder, old.group_folder);
END;
