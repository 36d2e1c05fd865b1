BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0018');
CREATE TABLE alerts (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	rule VARCHAR(32) NOT NULL, 
	job_id VARCHAR(64), 
	message TEXT NOT NULL, 
	value FLOAT, 
	raised_at FLOAT NOT NULL, 
	resolved_at FLOAT, 
	PRIMARY KEY (seq), 
	UNIQUE (id)
);
CREATE TABLE attempts (
	job_id VARCHAR(64) NOT NULL, 
	epoch BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	worker VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	devices JSON NOT NULL, 
	started_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	became VARCHAR(20), 
	reason TEXT, 
	PRIMARY KEY (job_id, epoch), 
	FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE TABLE campaign_effects (
	campaign_id VARCHAR(64) NOT NULL, 
	loop BIGINT NOT NULL, 
	step VARCHAR(32) NOT NULL, 
	"key" VARCHAR(80) NOT NULL, 
	seq BIGINT NOT NULL, 
	response JSON NOT NULL, 
	job_id VARCHAR(64), 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (campaign_id, loop, step, "key"), 
	FOREIGN KEY(campaign_id) REFERENCES jobs (id)
);
CREATE TABLE campaign_scripts (
	id VARCHAR(64) NOT NULL, 
	campaign_id VARCHAR(64) NOT NULL, 
	calls BIGINT NOT NULL, 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	cost FLOAT NOT NULL, 
	refusal VARCHAR(32), 
	started_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(campaign_id) REFERENCES jobs (id)
);
CREATE TABLE campaign_steps (
	campaign_id VARCHAR(64) NOT NULL, 
	loop BIGINT NOT NULL, 
	name VARCHAR(32) NOT NULL, 
	output JSON, 
	started_at FLOAT NOT NULL, 
	finished_at FLOAT, rewinds BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (campaign_id, loop, name), 
	FOREIGN KEY(campaign_id) REFERENCES jobs (id)
);
CREATE TABLE campaign_waits (
	campaign_id VARCHAR(64) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (campaign_id, job_id), 
	FOREIGN KEY(campaign_id) REFERENCES jobs (id)
);
CREATE TABLE campaigns (
	id VARCHAR(64) NOT NULL, 
	rewinds BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(id) REFERENCES jobs (id)
);
INSERT INTO "campaigns" VALUES('ftjob-kept',0);
CREATE TABLE checkpoint_permissions (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	checkpoint VARCHAR(300) NOT NULL, 
	project_id VARCHAR(128) NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (checkpoint, project_id), 
	UNIQUE (id)
);
CREATE TABLE checkpoints (
	job_id VARCHAR(64) NOT NULL, 
	step BIGINT NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	path TEXT NOT NULL, 
	metrics JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (job_id, step), 
	FOREIGN KEY(job_id) REFERENCES jobs (id), 
	UNIQUE (id)
);
CREATE TABLE datasets (
	name VARCHAR(64) NOT NULL, 
	file_id VARCHAR(64) NOT NULL, 
	description TEXT NOT NULL, 
	license VARCHAR(200), 
	source TEXT, 
	statistics JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE events (
	job_id VARCHAR(64) NOT NULL, 
	number BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	level VARCHAR(8) NOT NULL, 
	type VARCHAR(16) NOT NULL, 
	message TEXT NOT NULL, 
	data JSON, 
	PRIMARY KEY (job_id, number), 
	FOREIGN KEY(job_id) REFERENCES jobs (id)
);
INSERT INTO "events" VALUES('ftjob-kept',1,1764300000.0,'info','message','Job created',NULL);
CREATE TABLE files (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	filename TEXT NOT NULL, 
	purpose VARCHAR(32) NOT NULL, 
	bytes BIGINT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	created_at FLOAT NOT NULL, expires_at FLOAT, 
	PRIMARY KEY (seq), 
	UNIQUE (id)
);
CREATE TABLE idempotency (
	principal VARCHAR(80) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	response JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (principal, "key")
);
CREATE TABLE jobs (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	queue VARCHAR(64) NOT NULL, 
	validation_queue VARCHAR(64) NOT NULL, 
	priority BIGINT NOT NULL, 
	gpus BIGINT, 
	request JSON NOT NULL, 
	labels JSON, 
	result JSON, 
	error JSON, 
	phase VARCHAR(64), 
	step BIGINT, 
	total_steps BIGINT, 
	eta_seconds FLOAT, 
	queue_reason TEXT, 
	attempt BIGINT NOT NULL, 
	losses BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	owner VARCHAR(200), 
	lease_expires_at FLOAT, 
	cancel_requested_at FLOAT, 
	reports_offset BIGINT NOT NULL, 
	event_count BIGINT NOT NULL, 
	created_at FLOAT NOT NULL, 
	updated_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, not_before FLOAT, progress BIGINT DEFAULT '0' NOT NULL, pause_requested_at FLOAT, deadline_at FLOAT, memory_estimate JSON, 
	PRIMARY KEY (seq), 
	UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'ftjob-kept','fine_tuning','queued','tune','tune-check',0,NULL,'{"model": "base"}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,NULL,NULL,0,1,1764300000.0,1764300000.0,NULL,NULL,NULL,0,NULL,NULL,NULL);
CREATE TABLE models (
	seq INTEGER NOT NULL, 
	id VARCHAR(300) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	base VARCHAR(300), 
	folder TEXT, 
	hub_id VARCHAR(200), 
	revision VARCHAR(100), 
	job_id VARCHAR(64), 
	job_path TEXT, 
	lineage JSON, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (seq), 
	FOREIGN KEY(job_id) REFERENCES jobs (id), 
	UNIQUE (id)
);
CREATE TABLE notes (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	trajectory_id VARCHAR(200), 
	text TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE TABLE outbox (
	seq INTEGER NOT NULL, 
	queue VARCHAR(64) NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (seq)
);
CREATE TABLE resource_leases (
	resource_id VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	job_id VARCHAR(64) NOT NULL, 
	epoch BIGINT NOT NULL, 
	acquired_at FLOAT NOT NULL, 
	PRIMARY KEY (resource_id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE TABLE usage (
	day VARCHAR(10) NOT NULL, 
	principal VARCHAR(64) NOT NULL, 
	model VARCHAR(300) NOT NULL, 
	requests BIGINT NOT NULL, 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	PRIMARY KEY (day, principal, model)
);
CREATE TABLE webhook_deliveries (
	seq INTEGER NOT NULL, 
	webhook_id VARCHAR(64) NOT NULL, 
	event_id VARCHAR(64) NOT NULL, 
	event JSON NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	attempts BIGINT NOT NULL, 
	last_error TEXT, 
	created_at FLOAT NOT NULL, 
	next_attempt_at FLOAT, 
	PRIMARY KEY (seq)
);
CREATE TABLE webhooks (
	seq INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	url TEXT NOT NULL, 
	events JSON NOT NULL, 
	format VARCHAR(16) NOT NULL, 
	secret VARCHAR(100) NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (id)
);
CREATE TABLE workers (
	id VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	queues JSON NOT NULL, 
	gpus JSON NOT NULL, 
	cpu_slots BIGINT NOT NULL, 
	started_at FLOAT NOT NULL, 
	heartbeat_at FLOAT NOT NULL, gpu_bytes JSON, 
	PRIMARY KEY (id)
);
CREATE INDEX ix_files_sha256 ON files (sha256);
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);
CREATE INDEX jobs_by_kind ON jobs (kind, seq);
CREATE INDEX jobs_by_lease ON jobs (lease_expires_at);
CREATE INDEX jobs_by_queue ON jobs (status, queue, priority, seq);
CREATE INDEX ix_workers_heartbeat_at ON workers (heartbeat_at);
CREATE INDEX ix_resource_leases_host ON resource_leases (host);
CREATE INDEX ix_resource_leases_job_id ON resource_leases (job_id);
CREATE INDEX ix_campaign_effects_job_id ON campaign_effects (job_id);
CREATE INDEX ix_datasets_file_id ON datasets (file_id);
CREATE INDEX notes_by_job ON notes (job_id, trajectory_id);
CREATE INDEX ix_campaign_scripts_campaign_id ON campaign_scripts (campaign_id);
CREATE INDEX jobs_by_status ON jobs (status, seq);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_at);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, seq);
CREATE INDEX alerts_by_job ON alerts (job_id);
CREATE INDEX alerts_open ON alerts (resolved_at);
COMMIT;
