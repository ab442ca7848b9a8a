-- The origin of a file on ext4 and XFS begins with its inode, highest byte first: files that are made one after the other are
-- neighbours in the index of receipts by origin. A file that a power cut puts back is known by its row, and may
-- wait for weeks in a box that is held, so all rows are rewritten. A million takes some five seconds.
UPDATE receipts SET origin = CAST(x'69'
    || substr(origin, 9, 1) || substr(origin, 8, 1) || substr(origin, 7, 1) || substr(origin, 6, 1)
    || substr(origin, 10) AS BLOB)
 WHERE length(origin) = 13 AND substr(origin, 1, 5) = x'6801000000';
UPDATE receipts SET origin = CAST(x'6a'
    || substr(origin, 13, 1) || substr(origin, 12, 1) || substr(origin, 11, 1) || substr(origin, 10, 1)
    || substr(origin, 9, 1) || substr(origin, 8, 1) || substr(origin, 7, 1) || substr(origin, 6, 1)
    || substr(origin, 14) AS BLOB)
 WHERE length(origin) = 17 AND substr(origin, 1, 5) = x'6881000000';
