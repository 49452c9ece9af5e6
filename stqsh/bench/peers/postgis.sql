-- Range queries over moving objects in PostGIS: regions under a GiST index, and a trigger on insert that finds out
-- which of them each object has entered and left. Set-based, once a COPY: a trigger for each row is slower.
-- Nothing is written twice: unlogged tables, no sync; fillfactor lets an object's row be updated in its page.
CREATE EXTENSION postgis;

CREATE UNLOGGED TABLE region (id int PRIMARY KEY, area geometry NOT NULL);
CREATE UNLOGGED TABLE object (oid bigint PRIMARY KEY, at geometry NOT NULL) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE report (step int, oid bigint, x float8, y float8);
CREATE UNLOGGED TABLE change (step int, query int, oid bigint, op int);

CREATE FUNCTION take_reports() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO change
    SELECT n.step, r.id, n.oid, 1
    FROM fresh n JOIN object o USING (oid) JOIN region r ON ST_Intersects(r.area, ST_Point(n.x, n.y))
    WHERE NOT ST_Intersects(r.area, o.at)
    UNION ALL
    SELECT n.step, r.id, n.oid, -1
    FROM fresh n JOIN object o USING (oid) JOIN region r ON ST_Intersects(r.area, o.at)
    WHERE NOT ST_Intersects(r.area, ST_Point(n.x, n.y));
  UPDATE object SET at = ST_Point(n.x, n.y) FROM fresh n WHERE object.oid = n.oid;
  RETURN NULL;
END
$$;

CREATE TRIGGER on_report AFTER INSERT ON report REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION take_reports();
