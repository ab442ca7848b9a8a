-- What was said in archived sessions is indexed for each group by itself, beside this store (data/search/). The index that
-- was here took the writer's time for everybody.

DROP TRIGGER archives_text_in;
DROP TRIGGER archives_text_out;
DROP TRIGGER archives_text_new;
DROP TABLE archives_text;
